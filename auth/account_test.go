package auth

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// A heldBack transport withholds the answers to requests with a mark in the form
// until release is closed.
type heldBack struct {
	mark    []byte
	arrived chan struct{} // gets one for each
	release chan struct{}
}

func hold(mark string) *heldBack {
	return &heldBack{mark: []byte(mark), arrived: make(chan struct{}, 1), release: make(chan struct{})}
}

func (h *heldBack) RoundTrip(req *http.Request) (*http.Response, error) {
	var form []byte
	if req.Body != nil {
		form, _ = io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(form))
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if bytes.Contains(form, h.mark) {
		h.arrived <- struct{}{}
		<-h.release
	}
	return resp, err
}

// Tokens that arrive while somebody signs out are revoked and removed as well.
func TestSignOutDuringRenewal(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	h := hold("grant_type=refresh_token")
	c, other := b.bridge(func(c *Config) { c.Transport = h }), b.bridge(nil)
	b.mustCall(c, "")
	b.ExpireAccess()
	status, use, header := b.send(c, "")
	renewed := make(chan Decision, 1)
	go func() { renewed <- c.Challenge(b.context(), use, status, header) }()
	<-h.arrived
	short, cancel := context.WithTimeout(b.context(), 300*time.Millisecond)
	defer cancel()
	if err := other.SignOut(short, false); err == nil {
		t.Error("signed out in the middle of a renewal")
	}
	close(h.release)
	if d := <-renewed; d.Action != Again {
		t.Errorf("%v: %s", d.Action, d.Why)
	}
	if err := other.SignOut(b.context(), false); err != nil {
		t.Fatal(err)
	}
	if token, _, err := c.token(b.context()); err != nil || !token.IsZero() || b.Ledger().Revoked != 1 {
		t.Errorf("a token after signing out (%v), or not revoked", err)
	}
}

// The account that signed out is known until it is forgotten, and has no say in
// anything else. Signing out twice leaves other accounts' tokens alone.
func TestLastAccount(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c, work := b.bridge(nil), b.bridge(func(c *Config) { c.Principal = "work" })
	b.mustCall(work, "")
	b.mustCall(c, "")
	account := principal(t, c)
	for range 2 {
		if err := c.SignOut(b.context(), false); err != nil {
			t.Fatal(err)
		}
		if last, err := b.bridge(nil).LastAccount(); err != nil || last != account || principal(t, c) != Anonymous {
			t.Errorf("last account %q, %v, want %q; present account %q", last, err, account, principal(t, c))
		}
	}
	if err := c.SignOut(b.context(), true); err != nil {
		t.Fatal(err)
	}
	if last, err := c.LastAccount(); err != nil || last != "" {
		t.Errorf("last account after forget: %q, %v", last, err)
	}
	b.mustCall(work, "")
	if got := b.Ledger().Authorizations; got != 2 {
		t.Errorf("%d authorizations", got)
	}
}

// Where no subject is known, the account of a server stays the same across lost
// tokens and signing out; a known subject decides for itself.
func TestAccountWithoutRecord(t *testing.T) {
	lose := map[string]func(*bench, *Credentials){
		"damaged": func(b *bench, c *Credentials) {
			path := filepath.Join(b.dir, "tokens", c.oauth.settings.Record)
			if _, err := os.Stat(path); err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				b.t.Fatal(err)
			}
		},
		"signed out": func(b *bench, c *Credentials) {
			if err := c.SignOut(b.context(), false); err != nil {
				b.t.Fatal(err)
			}
		},
	}
	for name, lost := range lose {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{})
			c := b.bridge(nil)
			b.mustCall(c, "")
			first := principal(t, c)
			lost(b, c)
			c = b.bridge(nil)
			b.mustCall(c, "")
			if got := principal(t, c); got != first {
				t.Errorf("account %q, then %q", first, got)
			}
			lost(b, c)
			b.Change(func(q *authtest.Quirks) { q.Subject = "u2" })
			c = b.bridge(nil)
			b.mustCall(c, "")
			if got := principal(t, c); got == first {
				t.Error("a subject that was never seen has the account of before")
			}
		})
	}
}
