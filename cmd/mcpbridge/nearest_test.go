package main

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"--answer-within", "--idle-timeout", "--job-timeout", "--read", "--retries", "--header"}
	for name, want := range map[string]string{
		"--answer-withn":  "--answer-within",
		"--answer_within": "--answer-within",
		"--Retries":       "--retries",
		"--raed":          "--read",
		"--headers":       "--header",
		"--jobtimeout":    "--job-timeout",
		"--verbose":       "",
		"":                "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
