//go:build !darwin && !windows

package auth

func systemBrowsers(address string) [][]string {
	return [][]string{
		{"xdg-open", address},
		{"wslview", address},
		{"x-www-browser", address},
		{"www-browser", address},
		{"sensible-browser", address},
	}
}
