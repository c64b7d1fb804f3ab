//go:build race

package eras

const raceDetector = true
