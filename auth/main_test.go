package auth

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"go.uber.org/goleak"
)

// TestMain lets the test binary play other processes: "helper NAME ARGS...".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

func helper(name string, args []string) int {
	switch name {
	case "print":
		fmt.Println(strings.Join(args, "\n"))
	case "fail":
		fmt.Fprintln(os.Stderr, "hush")
		return 3
	case "record": // a browser: writes its arguments to a file
		if os.WriteFile(args[0], []byte(strings.Join(args[1:], "\n")), 0o600) != nil {
			return 1
		}
	case "counter": // a token command whose output changes
		b, _ := os.ReadFile(args[0])
		b = append(b, 'x')
		if os.WriteFile(args[0], b, 0o600) != nil {
			return 1
		}
		if len(args) > 1 { // the seconds that each is good for
			fmt.Printf(`{"access_token":"token-%d","expires_in":%s}`, len(b), args[1])
			break
		}
		fmt.Printf("token-%d\n", len(b))
	case "block":
		_, _ = io.Copy(io.Discard, blocked{})
	case "flood":
		_, _ = io.Copy(os.Stdout, io.LimitReader(zeros{}, 1<<20))
	case "signin":
		return signInHelper(args[0], args[1])
	}
	return 0
}

// blocked is a reader in which nothing arrives for longer than any test runs.
type blocked struct{}

func (blocked) Read([]byte) (int, error) {
	<-time.After(time.Minute)
	return 0, io.EOF
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// signInHelper begins a sign-in, prints its URL and waits to be killed.
func signInHelper(server, dir string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 1
	}
	store, err := OpenStore(dir, KeyInFile, nil)
	if err != nil {
		return 1
	}
	c, err := New(Config{Server: u, OAuth: &OAuth{}, Store: store})
	if err != nil {
		return 1
	}
	err = c.SignIn(context.Background(), SignInOptions{NoBrowser: true, Show: func(p Prompt) { fmt.Println(p.URL) }})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A bench is one server, one store and any number of bridges on it.
type bench struct {
	*authtest.Server
	t       *testing.T
	dir     string
	browser *authtest.Browser
	log     *lockedBuffer
}

func newBench(t *testing.T, q authtest.Quirks) *bench {
	t.Helper()
	t.Parallel()
	s := authtest.Start(q)
	t.Cleanup(s.Close)
	return &bench{Server: s, t: t, dir: t.TempDir(), browser: &authtest.Browser{}, log: &lockedBuffer{}}
}

func (b *bench) store() *Store {
	b.t.Helper()
	s, err := OpenStore(b.dir, KeyInFile, func(line string) { _, _ = fmt.Fprintln(b.log, line) })
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// bridge is a process of its own as far as this package goes: nothing in memory
// is shared, only the store.
func (b *bench) bridge(change func(*Config)) *Credentials {
	b.t.Helper()
	u, err := url.Parse(b.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	cfg := Config{
		Server: u, OAuth: &OAuth{}, Store: b.store(), Transport: transport, Browser: b.browser.Open,
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

// send makes one delivery.
func (b *bench) send(c *Credentials, query string) (status int, use Use, h http.Header) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodPost, b.URL+query, strings.NewReader("{}"))
	if err != nil {
		b.t.Fatal(err)
	}
	if use, err = c.Apply(b.context(), req); err != nil {
		b.t.Errorf("apply: %v", err)
		return 0, use, nil
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		b.t.Errorf("send: %v", err)
		return 0, use, nil
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		c.Accepted(use)
	}
	return resp.StatusCode, use, resp.Header
}

// call does what a bridge does for one call of the host: deliver, and once more
// if the credentials can be mended.
func (b *bench) call(c *Credentials, query string) (int, Decision, error) {
	b.t.Helper()
	status, use, h := b.send(c, query)
	if status != 401 && status != 403 {
		return status, Decision{}, nil
	}
	d := c.Challenge(b.context(), use, status, h)
	switch d.Action {
	case Stop:
		return status, d, nil
	case SignIn:
		if err := c.SignIn(b.context(), SignInOptions{}); err != nil {
			return status, d, err
		}
	}
	status, _, _ = b.send(c, query)
	return status, d, nil
}

// mustCall is call that has to end well.
func (b *bench) mustCall(c *Credentials, query string) Decision {
	b.t.Helper()
	status, d, err := b.call(c, query)
	if status != http.StatusOK || err != nil {
		b.t.Fatalf("call%s: status %d, %v (%s), %v", query, status, d.Action, d.Why, err)
	}
	return d
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
