// Package hostside holds tests of what a host sees of the bridge, through the
// real program: lines and ids, cancels, limits, pipes that nobody reads, ways to
// leave, the catalogue that answers before the server does, eras and sessions.
package hostside
