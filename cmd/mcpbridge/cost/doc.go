// Package cost holds what the journal costs, as benchmarks: the real program on
// pipes, and beside it, in the same run, what a turn at a journal costs on this
// machine. `make bench-journal` runs them; BENCHMARKS.md has the figures.
package cost
