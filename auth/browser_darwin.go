package auth

func systemBrowsers(address string) [][]string {
	return [][]string{{"open", address}}
}
