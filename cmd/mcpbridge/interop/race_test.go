//go:build race

package interop

func buildFlags() []string { return []string{"-race"} }
