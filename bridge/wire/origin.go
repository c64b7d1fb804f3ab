package wire

import (
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// An origin is the scheme, host and port (RFC 6454, section 4) that all
// requests and configured headers of a Client go to.
type origin struct{ scheme, host, port string }

func originOf(u *url.URL) origin {
	o := origin{scheme: strings.ToLower(u.Scheme), host: asciiHost(u), port: u.Port()}
	if o.port == "" {
		o.port = defaultPort(o.scheme)
	}
	return o
}

// asciiHost returns the host name in lower case, with Unicode names as DNS
// knows them.
func asciiHost(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if ascii, err := httpguts.PunycodeHostPort(host); err == nil {
		return ascii
	}
	return host
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	case "socks5", "socks5h":
		return "1080"
	}
	return ""
}

// shown returns a URL as it may be printed: without credentials, query and
// fragment.
func shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return bare.String()
}
