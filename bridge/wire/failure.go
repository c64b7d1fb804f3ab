package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/mcpbridge/mcpbridge/classify"
)

// A Failure says how a delivery failed and what is proven about it. It is the
// only error of Do and of a response's body (beside io.EOF).
type Failure struct {
	Stage  classify.Stage
	Sent   classify.Sent
	Hops   int    // redirects followed before it
	Detail string // one line for people: what, where, cure; no secrets
	Err    error  // the cause; the context's cause where the context ended
}

func (f *Failure) Error() string { return f.Detail }

func (f *Failure) Unwrap() error { return f.Err }

// detailLimit bounds the text of a foreign error within Detail, in bytes.
const detailLimit = 200

// unsent is a failure before the first byte of the request.
func unsent(stage classify.Stage, err error, format string, args ...any) *Failure {
	return &Failure{Stage: stage, Sent: classify.NothingSent, Detail: fmt.Sprintf(format, args...), Err: err}
}

// ended is the failure of a delivery whose context ended first.
func ended(ctx context.Context, stage classify.Stage, sent classify.Sent, doing string) *Failure {
	cause := context.Cause(ctx)
	how := "cancelled"
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		how = "timed out"
	}
	return &Failure{Stage: stage, Sent: sent, Detail: how + " while " + doing, Err: cause}
}

// describe returns the cause of a network error in few words.
func describe(err error) string {
	var reset *net.OpError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.Is(err, syscall.ECONNRESET), isWSA(err, wsaConnReset):
		return "connection reset"
	case errors.Is(err, syscall.EPIPE):
		return "connection closed"
	case errors.Is(err, syscall.ECONNREFUSED), isWSA(err, wsaConnRefused):
		return "connection refused"
	case errors.Is(err, syscall.ETIMEDOUT):
		return "connection lost (no answer from the network)"
	case errors.As(err, &reset) && reset.Op == "remote error":
		return "TLS alert: " + oneLine(reset.Err.Error())
	}
	return oneLine(err.Error())
}

// Error numbers of Windows sockets that package syscall does not map.
const (
	wsaConnReset   = syscall.Errno(10054)
	wsaConnRefused = syscall.Errno(10061)
)

func isWSA(err error, number syscall.Errno) bool { return errors.Is(err, number) }

// oneLine makes a foreign text fit for a line of our own.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > detailLimit {
		s = strings.ToValidUTF8(s[:detailLimit], "") + "..."
	}
	return s
}

// certificateAlerts are the alerts (RFC 8446, section 6.2) by which a server
// refuses a client over its certificate, as crypto/tls prints them. In TLS 1.3
// they arrive after our handshake is complete, and the request may be on its
// way; no server has read it then.
var certificateAlerts = [...]string{
	"bad certificate", "unsupported certificate", "revoked certificate", "expired certificate",
	"unknown certificate", "unknown certificate authority", "access denied", "certificate required",
	"handshake failure", "error decrypting message",
}

// certificateAlert returns the alert in err by which the server refused our
// certificate, or the lack of one.
func certificateAlert(err error) (string, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return "", false
	}
	text := strings.TrimPrefix(op.Err.Error(), "tls: ")
	for _, alert := range certificateAlerts {
		if text == alert {
			return alert, true
		}
	}
	return "", false
}

// refusedCertificate is the failure of a handshake that the server ended over
// our certificate.
func refusedCertificate(host, alert string, have bool, err error) *Failure {
	cure := "it wants a client certificate: give one with --client-cert and --client-key"
	if have {
		cure = "it does not accept the client certificate given with --client-cert"
	}
	return unsent(classify.Handshake, err, "TLS handshake with %s failed (%s): %s", host, alert, cure)
}

// isNotTLS reports whether the peer answered a handshake with something else.
func isNotTLS(err error) bool {
	var header tls.RecordHeaderError
	return errors.As(err, &header)
}
