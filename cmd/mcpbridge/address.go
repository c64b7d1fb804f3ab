package main

import (
	"net/netip"
	"net/url"
	"strings"
)

// isAddress reports whether the word on the command line is meant as an
// address and not as the name of a server: names hold no slash and no colon.
func isAddress(word string) bool { return strings.ContainsAny(word, "/:") }

// parseAddress reads the address of an MCP server. The error is a sentence
// without the address, which may hold a key in its query.
func parseAddress(s string) (*url.URL, string) {
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil && !strings.Contains(s, "://"), err == nil && !strings.Contains(s, "://"):
		return nil, "the address has no scheme; write https:// in front of it"
	case err != nil:
		return nil, "the address cannot be read; write it as https://example.com/mcp"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "the scheme of the address is " + u.Scheme + "; only http and https can be used"
	case u.Hostname() == "":
		return nil, "the address names no host; write it as https://example.com/mcp"
	case u.User != nil:
		return nil, "the address holds a user name or password; leave it out and use --header or --bearer-env"
	}
	u.Fragment, u.RawFragment = "", "" // never sent
	return u, ""
}

// isLoopback reports whether host names this machine and no other.
func isLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
