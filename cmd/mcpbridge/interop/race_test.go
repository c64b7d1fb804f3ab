//go:build race

package interop

// raceDetector says that the program under test is built with the detector.
const raceDetector = true

func buildFlags() []string { return []string{"-race"} }
