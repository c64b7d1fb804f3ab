package auth

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// obstruct makes every write of a kind of entries fail until the returned
// function is called; what is there can be read: the directory becomes a link,
// which is not written through.
func (b *bench) obstruct(kind string) (free func()) {
	b.t.Helper()
	dir := filepath.Join(b.dir, kind)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Rename(dir, dir+".real")); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(dir+".real", dir); err != nil {
		b.t.Skipf("symbolic links cannot be made here: %v", err)
	}
	return func() {
		if err := errors.Join(os.Remove(dir), os.Rename(dir+".real", dir)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// silent is a bridge at which nobody can sign in.
func (b *bench) silent() *Credentials {
	return b.bridge(func(c *Config) {
		c.Browser = func(context.Context, string) error { b.t.Error("browser opened"); return nil }
	})
}

// A renewal spends the refresh token: where the new one cannot be written, this
// process goes on with it, and writes it when that works.
func TestRenewalThatCannotBeStored(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	b.mustCall(b.bridge(nil), "")
	c := b.silent()
	free := b.obstruct("tokens")
	for range 2 {
		b.ExpireAccess()
		if d := b.mustCall(c, ""); d.Action != Again {
			t.Errorf("action %v, want again", d.Action)
		}
	}
	if err := c.Stored(); err == nil || !strings.Contains(b.log.String(), "cannot be stored") {
		t.Errorf("stored: %v; the log says:\n%s", err, b.log)
	}
	free()
	c.Close()
	second := b.silent()
	b.mustCall(second, "")
	b.ExpireAccess()
	b.mustCall(second, "")
	if l := b.Ledger(); l.Refreshes != 3 || l.Reused != 0 || l.Authorizations != 1 {
		t.Errorf("%d refreshes, %d reused, %d authorizations", l.Refreshes, l.Reused, l.Authorizations)
	}
}

// The same with a sign-in, whichever of its files cannot be written.
func TestSignInThatCannotBeStored(t *testing.T) {
	for _, kind := range []string{"tokens", "servers"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{Subject: "u1"})
			c := b.bridge(nil)
			free := b.obstruct(kind)
			b.mustCall(c, "")
			b.ExpireAccess()
			b.mustCall(c, "")
			account := principal(t, c)
			if err := c.Stored(); err == nil || account == Anonymous {
				t.Errorf("stored: %v, account %q", err, account)
			}
			free()
			if err := c.Stored(); err != nil {
				t.Error(err)
			}
			second := b.silent()
			b.mustCall(second, "")
			if got := principal(t, second); got != account {
				t.Errorf("account %q, then %q", account, got)
			}
			if l := b.Ledger(); l.Reused != 0 || l.Authorizations != 1 {
				t.Errorf("%d reused, %d authorizations", l.Reused, l.Authorizations)
			}
		})
	}
}

// Who signs out while tokens are not stored is signed out for good.
func TestSignOutOfWhatIsNotStored(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	free := b.obstruct("tokens")
	b.ExpireAccess()
	b.mustCall(c, "")
	free()
	if err := b.bridge(nil).SignOut(b.context(), false); err != nil {
		t.Fatal(err)
	}
	if token, _, err := c.token(b.context()); err != nil || !token.IsZero() {
		t.Errorf("a token after signing out: %v", err)
	}
	if err := c.Stored(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(b.dir, "tokens")); err != nil || len(entries) != 0 {
		t.Errorf("%d token records, %v", len(entries), err)
	}
}
