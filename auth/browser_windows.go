package auth

// systemBrowsers avoids cmd.exe, which would interpret & and % in the address.
func systemBrowsers(address string) [][]string {
	return [][]string{{"rundll32.exe", "url.dll,FileProtocolHandler", address}}
}
