package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
		"settings lost": func(b *bench, c *Credentials) {
			if err := os.Remove(filepath.Join(b.dir, "servers", c.oauth.name)); err != nil {
				b.t.Fatal(err)
			}
		},
		"settings damaged": func(b *bench, c *Credentials) {
			if err := os.WriteFile(filepath.Join(b.dir, "servers", c.oauth.name), []byte("{"), 0o600); err != nil {
				b.t.Fatal(err)
			}
		},
		"sealing key lost": func(b *bench, c *Credentials) {
			if err := os.WriteFile(filepath.Join(b.dir, "seal.key"), []byte(encodeKey(newKey())), 0o600); err != nil {
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
			if entries, err := c.oauth.cfg.Store.names("tokens"); err != nil || len(entries) != 1 {
				t.Errorf("%d token records, %v", len(entries), err)
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

// Where the key of account ids cannot be written at the first sign-in, the
// account has another id that stays the same.
func TestAccountWithoutKey(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	c := b.bridge(func(c *Config) {
		c.Store.replace = func(path string, content []byte) error {
			if filepath.Base(path) == "principal.key" {
				return errors.New("no space left")
			}
			return replaceFile(path, content)
		}
	})
	b.mustCall(c, "")
	first := principal(t, c)
	if first == Anonymous || !strings.Contains(b.log.String(), "principal key: it cannot be written: no space left") {
		t.Errorf("account %q; the log says:\n%s", first, b.log)
	}
	b.ExpireAccess()
	b.mustCall(b.silent(), "") // renewed
	b.ExpireAccess()
	b.RevokeRefresh()
	other := b.bridge(nil)
	b.mustCall(other, "") // signed in again
	if got := principal(t, other); got != first {
		t.Errorf("account %q, then %q", first, got)
	}
}

// A key that is there and cannot be read is another matter: whose calls are
// recorded already is not known. The sign-in ends with what to do, and nothing is
// stored.
func TestAccountWithUnreadableKey(t *testing.T) {
	b := newBench(t, authtest.Quirks{Subject: "u1"})
	if err := os.WriteFile(filepath.Join(b.dir, "principal.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := b.bridge(nil)
	_, _, err := b.call(c, "")
	if err == nil || !strings.Contains(err.Error(), "principal.key") || !strings.Contains(err.Error(), "move it away") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if b.checkStore(c) || b.Ledger().Revoked != 1 {
		t.Error("somebody is signed in, or the tokens were not revoked")
	}
	if err := os.Remove(filepath.Join(b.dir, "principal.key")); err != nil {
		t.Fatal(err)
	}
	b.mustCall(c, "")
}
