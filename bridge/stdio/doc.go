// Package stdio reads and writes the pipes between a host and the bridge: one
// message a line (MCP 2025-11-25 and 2026-07-28, Transports, stdio: messages
// "are delimited by newlines, and MUST NOT contain embedded newlines").
//
// What it promises:
//
//   - A line is written whole, in one piece, or stdout has failed. Nobody waits
//     in write(2): a write blocked on a full pipe keeps the descriptor open for
//     ever, and O_NONBLOCK is not ours to set, because the open file is shared
//     with the host. A line that does not fit waits in a bounded queue, and its
//     writer waits in poll(2), for a short time each.
//   - A line that is too long to read costs no memory beyond the limit, and the
//     request id in it is found all the same.
//   - stderr never holds anybody up. Lines that do not fit are lost and counted.
//
// Windows has no poll for pipes: there a goroutine of its own may be parked in
// a write until the process ends.
//
// A broken pipe is an error here, not a signal. The Go runtime raises SIGPIPE
// only for writes to descriptors 1 and 2 that go through an os.File; those of
// this package go to the system directly. Everything else in the process that
// writes to os.Stdout or os.Stderr needs signal.Notify for SIGPIPE (rather than
// signal.Ignore, which child processes would inherit).
package stdio
