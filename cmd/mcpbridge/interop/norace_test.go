//go:build !race

package interop

// raceDetector says that the program under test is built with the detector.
const raceDetector = false

func buildFlags() []string { return nil }
