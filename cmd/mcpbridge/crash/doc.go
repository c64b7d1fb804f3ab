// Package crash holds the ground truth of durable jobs, as tests: the real
// program is killed, cut off, repeated and raced at known points, and what it
// tells is compared with the ledger of the server behind it.
package crash
