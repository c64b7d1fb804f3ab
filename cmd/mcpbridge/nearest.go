package main

import "strings"

// nearest returns the known name that was most likely meant by name, or "" if
// none comes close. Hyphens and underscores count as the same, and so do
// capitals and small letters.
func nearest(name string, known []string) string {
	best, most := "", len(name)/3+1
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d <= most && (best == "" || d < most) {
			best, most = k, d
		}
	}
	return best
}

// didYouMean is nearest as the end of a message, or "".
func didYouMean(name string, known []string) string {
	if k := nearest(name, known); k != "" {
		return "; did you mean " + k + "?"
	}
	return ""
}

func plain(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// distance counts the single-byte insertions, deletions, replacements and swaps
// of neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
