package auth

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// checkStore wants a sign-in that is stored whole, or nothing of one.
func (b *bench) checkStore(c *Credentials) (signedIn bool) {
	b.t.Helper()
	var s settings
	found, err := c.oauth.cfg.Store.getPlain("servers", c.oauth.name, &s)
	if err != nil {
		b.t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(b.dir, "tokens"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	switch got := strings.Join(names, " "); {
	case !found && got != "", found && got != s.Record:
		b.t.Errorf("token records %q, while the settings (%v) name %q", got, found, s.Record)
	case strings.Contains(b.log.String(), "set aside"):
		b.t.Errorf("an entry was damaged:\n%s", b.log)
	}
	return found && s.Record != ""
}

// Who signs out ends the sign-ins that run, in whichever process, and those that
// wait for them. The page leads nowhere after that.
func TestSignOutEndsSignIns(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	first := b.bridge(func(c *Config) { c.Browser = nobody })
	second := b.bridge(func(c *Config) { c.Browser = nobody })
	shown, ended := begin(b, first)
	page := shown.next(t).URL
	elsewhere, alsoEnded := begin(b, second)
	elsewhere.next(t)
	if err := b.bridge(nil).SignOut(b.context(), false); err != nil {
		t.Fatal(err)
	}
	for _, end := range []chan error{ended, alsoEnded} {
		if err := await(t, end); !errors.Is(err, ErrSignedOut) {
			t.Errorf("the sign-in ends with %v", err)
		}
	}
	if status, err := authtest.Visit(page); err == nil && status == http.StatusOK {
		t.Error("the page still leads to somebody")
	}
	if b.checkStore(first) || b.Ledger().Codes != 0 {
		t.Error("somebody is signed in")
	}
	b.mustCall(b.bridge(nil), "") // as if nothing had been
	if !b.checkStore(first) {
		t.Error("nobody is signed in")
	}
}

// Tokens that come after somebody signed out are revoked, not stored: also the
// first ones that there ever were.
func TestSignOutBeforeTheTokensCome(t *testing.T) {
	for name, earlier := range map[string]bool{"first": false, "again": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, authtest.Quirks{})
			h := hold("grant_type=authorization_code")
			if earlier {
				b.mustCall(b.bridge(nil), "")
			}
			c := b.bridge(func(c *Config) { c.Transport = h })
			ended := make(chan error, 1)
			go func() { ended <- c.SignIn(b.context(), SignInOptions{Again: true}) }()
			<-h.arrived
			if err := b.bridge(nil).SignOut(b.context(), false); err != nil {
				t.Fatal(err)
			}
			close(h.release)
			if err := await(t, ended); !errors.Is(err, ErrSignedOut) {
				t.Errorf("the sign-in ends with %v", err)
			}
			want := 1
			if earlier {
				want = 2
			}
			if b.checkStore(c) || b.Ledger().Revoked != want {
				t.Errorf("somebody is signed in, or %d of %d sign-ins were revoked", b.Ledger().Revoked, want)
			}
		})
	}
}

// A sign-in that is begun while somebody signs out comes after that.
func TestSignInDuringSignOut(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	h := hold("token_type_hint")
	leaving := b.bridge(func(c *Config) { c.Transport = h })
	b.mustCall(leaving, "")
	out := make(chan error, 1)
	go func() { out <- leaving.SignOut(b.context(), true) }()
	<-h.arrived
	c := b.bridge(nil)
	ended := make(chan error, 1)
	go func() { ended <- c.SignIn(b.context(), SignInOptions{Again: true}) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for free := true; free; { // until the sign-in has begun
		unlock, ok, err := b.store().tryLock("signin-" + c.oauth.name)
		if err != nil {
			t.Fatal(err)
		}
		if free = ok; ok {
			unlock()
		}
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatalf("signing in ends with %v", err)
		}
	}
	close(h.release)
	if err := await(t, out); err != nil {
		t.Errorf("signing out: %v", err)
	}
	if err := await(t, ended); err != nil {
		t.Errorf("signing in: %v", err)
	}
	if !b.checkStore(c) {
		t.Error("nobody is signed in")
	}
	b.mustCall(b.silent(), "")
}

// However sign-ins and sign-outs of many processes meet, what is stored is whole,
// and each sign-in says how it ended.
func TestSignInsAndSignOutsMeet(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	var all sync.WaitGroup
	for n := range 4 {
		c, other := b.bridge(nil), b.bridge(nil)
		all.Go(func() {
			for range 4 {
				if err := c.SignIn(b.context(), SignInOptions{Again: true}); err != nil && !errors.Is(err, ErrSignedOut) {
					t.Errorf("sign in: %v", err)
				}
			}
		})
		all.Go(func() {
			for range 4 {
				if err := other.SignOut(b.context(), n+rand.IntN(4) == 3); err != nil {
					t.Errorf("sign out: %v", err)
				}
			}
		})
	}
	all.Wait()
	c := b.bridge(nil)
	b.checkStore(c)
	b.mustCall(c, "")
	if err := c.SignOut(b.context(), true); err != nil || b.checkStore(c) {
		t.Errorf("the last one: %v", err)
	}
}
