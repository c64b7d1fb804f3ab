// Package boltstore keeps a journal in one bbolt file that many processes take
// turns with.
//
// bbolt locks its file for as long as it is open, and hosts start one bridge
// for each window, so nobody keeps it open. A turn takes the lock on jobs.lock,
// opens the file, commits everything queued in this process, closes it and
// unlocks:
//
//	Update ─┐                     lock ─ check ─ open ─ commit ─ answer ─ close ─ unlock
//	Update ─┼─ queue ── serve ──▶   │ killed here, nothing happened   │ killed here,
//	Update ─┘                       └── until the commit is synced ───┘ all did
//
// Our own lock beside bbolt's is needed because bbolt polls for its own every
// 50 ms: a polite process would starve among busy ones. Readers take the lock
// shared and open the file read-only.
//
// In the state directory:
//
//	jobs.db                  the bbolt file
//	jobs.db.damaged-TIME-ID  one that could not be read, put away, never deleted
//	jobs.lock                the turn lock; after its first byte the holder's pid
//	jobs.key                 32 bytes, the Secret
//	bodies/NAME              bodies too large for a table
//	owners/NAME              one locked file for each living owner
//	CACHEDIR.TAG             keeps backups away
//
// What is not promised: that a page silently replaced by another valid page is
// noticed, and anything at all on a network file system, where neither locks
// nor shared memory maps hold.
package boltstore
