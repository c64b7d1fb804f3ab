package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
)

// authTransport carries what belongs to signing in. Proxy and authorities are
// those of the bridge; the client certificate is shown to the server alone.
func authTransport(o *options) (http.RoundTripper, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert != "" {
		pool, err := wire.Authorities(o.CACert)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = pool
	}
	others, err := transportWith(o, trust)
	if err != nil || o.ClientCert == "" {
		return others, err
	}
	pair, err := tls.LoadX509KeyPair(o.ClientCert, o.ClientKey)
	if err != nil {
		return others, nil // told when the bridge reads it
	}
	known := trust.Clone()
	known.Certificates = []tls.Certificate{pair}
	server, err := transportWith(o, known)
	return byHost{strings.ToLower(o.URL.Host), server, others}, err
}

func transportWith(o *options, trust *tls.Config) (*http.Transport, error) {
	t := &http.Transport{
		TLSClientConfig: trust, ForceAttemptHTTP2: true,
		Proxy:           http.ProxyFromEnvironment,
		DialContext:     (&net.Dialer{Timeout: connectTimeout(o)}).DialContext,
		IdleConnTimeout: 10 * time.Second, MaxIdleConns: 4,
	}
	switch o.Proxy {
	case "":
	case "direct":
		t.Proxy = nil
	default:
		via, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, configf("--proxy: not a URL")
		}
		t.Proxy = http.ProxyURL(via)
	}
	return t, nil
}

func connectTimeout(o *options) time.Duration {
	if o.ConnectTimeout > 0 {
		return o.ConnectTimeout
	}
	return bridge.DefaultConnectTimeout
}

// A byHost shows one host another face than all others.
type byHost struct {
	host          string
	server, other http.RoundTripper
}

// RoundTrip sends req the way that its host is to be reached.
func (b byHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.ToLower(req.URL.Host) == b.host {
		return b.server.RoundTrip(req)
	}
	return b.other.RoundTrip(req)
}
