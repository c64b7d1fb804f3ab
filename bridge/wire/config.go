package wire

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Defaults of Config.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultFreshFor       = 800 * time.Millisecond
	defaultUserAgent      = "mcpbridge"
)

// A Config says where requests go and how.
type Config struct {
	URL     *url.URL    // http or https; credentials in it become an Authorization header
	Headers http.Header // sent with every request that does not set them itself

	Proxy          string // "": as the environment says; "direct"; or a URL (http, https, socks5)
	CACertFile     string // PEM, trusted in addition to the system's authorities
	ClientCertFile string // PEM
	ClientKeyFile  string // PEM; "": the key is in ClientCertFile

	ConnectTimeout time.Duration // for name, TCP, proxy and TLS together; 0: 10 s
	FreshFor       time.Duration // see Request.Write; 0: 0.8 s

	NoCookies bool
	UserAgent string

	// Middleware adds credentials around one delivery. What it is given refuses
	// to send a request a second time. nil: none.
	Middleware func(http.RoundTripper) http.RoundTripper

	Log *slog.Logger // nil: nothing is logged
}

// framing lists headers that describe a message or its connection; they belong
// to HTTP itself and cannot be configured.
var framing = [...]string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Accept-Encoding",
}

// resending lists headers that let net/http send a request again on its own.
var resending = [...]string{"Idempotency-Key", "X-Idempotency-Key"}

// New reads the files that cfg names and returns a Client. It opens no
// connection and starts nothing. Its errors name what is wrong and what to do.
func New(cfg Config) (*Client, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, err
	}
	headers, err := configuredHeaders(cfg)
	if err != nil {
		return nil, err
	}
	trust, err := loadTLS(cfg)
	if err != nil {
		return nil, err
	}
	target := *cfg.URL
	target.User, target.Fragment, target.RawFragment = nil, "", ""
	route, err := routeTo(&target, cfg.Proxy)
	if err != nil {
		return nil, err
	}
	return newClient(cfg, &target, headers, route, trust), nil
}

func newClient(cfg Config, target *url.URL, headers http.Header, route route, trust *tls.Config) *Client {
	c := &Client{
		url:     target,
		origin:  originOf(target),
		headers: headers,
		log:     cfg.Log,
		memory:  newMemory(!cfg.NoCookies),
		dialer:  newDialer(target, route, trust, orDefault(cfg.ConnectTimeout, defaultConnectTimeout)),
	}
	c.pool.life.most = orDefault(cfg.FreshFor, defaultFreshFor)
	c.pool.mayShare = target.Scheme == "https"
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.host = headers.Get("Host")
	headers.Del("Host")
	c.trip = sender{c}
	if cfg.Middleware != nil {
		c.trip = cfg.Middleware(c.trip)
	}
	return c
}

func orDefault(d, standard time.Duration) time.Duration {
	if d <= 0 {
		return standard
	}
	return d
}

func checkURL(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("configure upstream: no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("configure upstream: scheme %q of the URL is neither http nor https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("configure upstream: the URL names no host")
	}
	if _, err := httpguts.PunycodeHostPort(u.Host); err != nil {
		return fmt.Errorf("configure upstream: host %q of the URL cannot be a host name", u.Host)
	}
	return nil
}

// configuredHeaders returns what is added to every request, with canonical
// keys. Values are never part of an error.
func configuredHeaders(cfg Config) (http.Header, error) {
	headers := make(http.Header, len(cfg.Headers)+2)
	for name, values := range cfg.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("configure headers: %q cannot be the name of a header", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("configure headers: the value of %s holds a line break or control character", name)
			}
		}
		headers[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	for _, name := range framing {
		if _, ok := headers[name]; ok {
			return nil, fmt.Errorf("configure headers: %s belongs to the connection and cannot be set; remove it", name)
		}
	}
	if name := resendingHeader(headers); name != "" {
		return nil, fmt.Errorf("configure headers: %s would allow requests to be sent twice and cannot be set; remove it", name)
	}
	if user := cfg.URL.User; user != nil && headers["Authorization"] == nil {
		password, _ := user.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		headers["Authorization"] = []string{"Basic " + basic}
	}
	if headers["User-Agent"] == nil {
		agent := strings.TrimSpace(cfg.UserAgent)
		if agent == "" {
			agent = defaultUserAgent
		}
		headers["User-Agent"] = []string{agent}
	}
	headers["Accept-Encoding"] = []string{"identity"} // compression holds back small events
	return headers, nil
}

func resendingHeader(h http.Header) string {
	for _, name := range resending {
		if _, ok := h[name]; ok {
			return name
		}
	}
	return ""
}
