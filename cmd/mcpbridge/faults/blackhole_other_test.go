//go:build !linux

package faults

import "testing"

// fullBacklog: other systems complete or refuse what a full listener gets.
func fullBacklog(testing.TB) string { return "" }
