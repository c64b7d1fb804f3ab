// Package retry decides what follows a verdict: whether a delivery may be made
// again, after which wait, or what has to happen first.
//
// It promises that a call that may have an effect is never sent again on the
// bridge's own account unless the verdict proves that there was none. It
// decides only; it sends nothing, waits for nothing and reads no clock.
package retry
