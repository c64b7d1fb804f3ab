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
// A journal is a set of tables in a store (package store); this is version 3.
// TIME is 8 bytes of nanoseconds since 1970, big endian; PRINT 32 bytes; N 8
// bytes, big endian; HANDLE is text. BRIEF is the state, whether the handle is out,
// the length of the owner's name (a byte each), the owner and the waiter. FLAGS is a
// byte: 1 lasting, it changed an hour after its creation or later; 2 live, it is
// open, unknown, or nobody has its end; 4 of a recent job, filing it takes more than
// moving its record. SIZED is preceded by its length, a varint.
//
// A job that was begun last stands in recent. Filed, its record stands in jobs, and
// rows in due, live and prints follow from it.
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
//	  indexed               TIME HANDLE up to which handles has all filed jobs
//	recent
//	  TIME HANDLE           by creation: FLAGS, SIZED BRIEF, PRINT of the call, PRINT
//	                          of the tool, SIZED arguments and SIZED result (empty if
//	                          they are longer than 1 KiB), Job as JSON
//	jobs
//	  TIME HANDLE           by creation: FLAGS, Job as JSON
//	handles
//	  HANDLE                TIME under which the record stands in jobs
//	bodies
//	  HANDLE.arguments      arguments as the host sent them, up to 64 KiB
//	  HANDLE.result         result or error as upstream gave it, up to 64 KiB
//	due
//	  TIME HANDLE           jobs whose next expiry does not follow from their creation
//	live
//	  TIME HANDLE           BRIEF; those that are live
//	prints
//	  PRINT TIME HANDLE     BRIEF; the same jobs, by call and by tool
//	keys
//	  PRINT                 HANDLE of the last job with that idempotency key
//	rounds
//	  PRINT                 HANDLE of the last job that was given that requestState
//	asks
//	  HANDLE N              Ask as JSON
package jobs
