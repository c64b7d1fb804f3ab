//go:build !race

package programtest

// RaceDetector says whether the tests, and with them the program, have it.
const RaceDetector = false
