//go:build race

package hostside

const raceDetector = true
