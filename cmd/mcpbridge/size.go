package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseSize reads a number of bytes: "1048576", "64KiB", "64 MiB", "1GiB". It
// is more than zero.
func parseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			digits, unit = strings.TrimRight(rest, " "), bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || n <= 0:
		return 0, errors.New("wants a size in bytes, KiB, MiB or GiB, such as 64MiB")
	case n > maxSize/unit:
		return 0, errors.New("wants less: so many bytes cannot be counted")
	}
	return n * unit, nil
}

// maxSize bounds sizes, in bytes, so that a little can be added to them.
const maxSize = math.MaxInt64 - math.MaxInt64%(1<<30)

// parseDuration reads a duration in Go's form that is zero or more.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errors.New("wants a duration such as 45s, 1m30s or 500ms")
	}
	return d, nil
}

// parseSpan reads a duration that is more than zero.
func parseSpan(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d == 0 {
		err = errors.New("wants a duration above zero, such as 45s")
	}
	return d, err
}
