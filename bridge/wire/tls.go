package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

// sessionCache is how many TLS sessions are kept for resumption. There is one
// origin, and a proxy at most.
const sessionCache = 8

// loadTLS returns the configuration that the files of cfg describe.
func loadTLS(cfg Config) (*tls.Config, error) {
	trust := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(sessionCache),
	}
	if cfg.CACertFile != "" {
		pool, err := Authorities(cfg.CACertFile)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = pool
	}
	switch {
	case cfg.ClientCertFile != "":
		pair, err := loadPair(cfg.ClientCertFile, cfg.ClientKeyFile)
		if err != nil {
			return nil, err
		}
		trust.Certificates = []tls.Certificate{pair}
	case cfg.ClientKeyFile != "":
		return nil, fmt.Errorf("load client key %q: there is no certificate for it; give one with --client-cert", cfg.ClientKeyFile)
	}
	return trust, nil
}

// Authorities returns the system's authorities and those in file (PEM).
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load CA certificate: %w; check the path given with --ca-cert", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("load CA certificate %q: no PEM certificate in it; convert it with: openssl x509 -in FILE -outform pem", file)
	}
	return pool, nil
}

func loadPair(certFile, keyFile string) (tls.Certificate, error) {
	if keyFile == "" {
		keyFile = certFile
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load client certificate %q with key %q: %w; both must be PEM, the key without a password", certFile, keyFile, err)
	}
	return pair, nil
}

// explainHandshake turns the error of a TLS handshake with host into a Failure
// that names the cause.
func explainHandshake(err error, host string, haveCert bool) *Failure {
	if alert, ok := certificateAlert(err); ok {
		return refusedCertificate(host, alert, haveCert, err)
	}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		network   *net.OpError
	)
	switch {
	case errors.As(err, &name):
		return unsent(classify.Handshake, err, "the certificate of %s is for another name: check the URL", host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return unsent(classify.Handshake, err, "the certificate of %s %s", host, validity(invalid.Cert))
	case errors.As(err, &authority):
		return unsent(classify.Handshake, err, "the certificate of %s is signed by an authority unknown here: "+
			"give that authority's certificate with --ca-cert", host)
	case isNotTLS(err):
		return unsent(classify.Handshake, err, "%s does not speak TLS on this port: check scheme and port of the URL", host)
	case errors.As(err, &network) && network.Op == "remote error":
		return unsent(classify.Handshake, err, "TLS handshake with %s failed: the server said %s", host, describe(err))
	}
	return unsent(classify.Handshake, err, "TLS handshake with %s failed: %s", host, describe(err))
}

// validity says when a certificate that is not valid now is.
func validity(cert *x509.Certificate) string {
	if cert == nil {
		return "is expired or not valid yet"
	}
	if time.Now().Before(cert.NotBefore) {
		return "is valid only from " + cert.NotBefore.UTC().Format(time.DateOnly) + ": check the clock of this machine"
	}
	return "expired on " + cert.NotAfter.UTC().Format(time.DateOnly)
}
