// Package jobs keeps the durable record of each tools/call that may have an
// effect: what was asked, where it stands, and what became of it.
//
// A record is written before the first byte of its call is sent (Begin) and its
// end before the host is told (Finish). What follows from that:
//
//   - A job without an end whose owner is gone is outcome_unknown, always: the
//     record is older than the first byte and proves nothing. Only a living
//     process can say that nothing was sent.
//   - The first settled state stays. What is learnt later goes to the timeline,
//     and sets Conflict if it contradicts what was said.
//   - A call is held back (Begin) if an earlier one with the same fingerprint is
//     in nobody's hands and its end in nobody's knowledge.
//
// Not promised: that a record survives the loss of its disk, and that two state
// directories know of each other.
//
// # Times of a call
//
//	Begin ──▶ sent ──▶ ... ──▶ Finish ──▶ host told ──▶ Note{Told}
//	  │ died here: never sent,    │ died here: the kept     │ died here: a repeat
//	  │ yet unknown; somebody     │ end answers a repeat,   │ may get the kept
//	  │ says what happened        │ once                    │ end once more
//
// # Schema
//
// A journal is a set of tables in a store (package store); this is version 2.
// TIME is 8 bytes of nanoseconds since 1970, big endian; PRINT 32 bytes; N 8
// bytes, big endian; HANDLE is text. Rows of indexes follow from the record and
// from the table that it stands in. BRIEF is the state, whether the handle is out,
// the length of the owner's name (a byte each), the owner and the waiter.
//
//	store                   the store's own
//	  version               schema version, 4 bytes, big endian
//	  generation            text, another one after the contents were lost
//	  set_aside             RFC 3339 time at which a damaged journal was put away
//	marks
//	  clock                 TIME that is certain to have come
//	  ahead                 TIME of the first reading of a clock far ahead of it
//	  pruned                TIME of the last prune
//	  wiped                 TIME since which wiped content may lie in free pages
//	  room                  N of jobs that may be begun before recent ones are filed
//	recent
//	  TIME HANDLE           jobs begun last, by creation, until they are filed: a byte
//	                          of flags (1 lasting: it changed an hour after its
//	                          creation or later; 2 live), and Job as JSON
//	jobs
//	  TIME HANDLE           the others, the same way
//	handles
//	  HANDLE                TIME under which the record stands in jobs
//	bodies
//	  HANDLE.arguments      arguments as the host sent them, up to 64 KiB
//	  HANDLE.result         result or error as upstream gave it, up to 64 KiB
//	due
//	  TIME HANDLE           jobs whose next expiry does not follow from their creation
//	live
//	  TIME HANDLE           BRIEF; jobs open, unknown, or whose end nobody has
//	prints
//	  PRINT TIME HANDLE     BRIEF; the same jobs, by call and by tool
//	keys
//	  PRINT                 HANDLE of the last job with that idempotency key
//	rounds
//	  PRINT                 HANDLE of the last job that was given that requestState
//	asks
//	  HANDLE N              Ask as JSON
package jobs
