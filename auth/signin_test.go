package auth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
)

// nobody is a browser in which nothing happens.
func nobody(context.Context, string) error { return nil }

// prompts collects what a person was shown.
type prompts chan Prompt

func (p prompts) show(x Prompt) { p <- x }

func (p prompts) next(t *testing.T) Prompt {
	t.Helper()
	select {
	case x := <-p:
		return x
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was shown")
		return Prompt{}
	}
}

// begin starts a sign-in and returns what it shows and how it ends.
func begin(b *bench, c *Credentials) (prompts, chan error) {
	shown, ended := make(prompts, 8), make(chan error, 1)
	go func() { ended <- c.SignIn(b.context(), SignInOptions{Show: shown.show}) }()
	return shown, ended
}

func await(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(15 * time.Second):
		t.Fatal("the sign-in did not end")
		return nil
	}
}

// B83: four at once: one page, one registration, one code; all are signed in.
func TestFourAtOnce(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	var calls sync.WaitGroup
	for range 4 {
		c := b.bridge(nil)
		calls.Go(func() {
			if status, _, err := b.call(c, ""); status != http.StatusOK || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
		})
	}
	calls.Wait()
	if l := b.Ledger(); len(b.browser.Opened()) != 1 || l.Registrations != 1 || l.Codes != 1 {
		t.Errorf("%d pages, %d registrations, %d codes", len(b.browser.Opened()), l.Registrations, l.Codes)
	}
}

func TestCallsShareOneSignIn(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) { c.Browser = nobody })
	first, ended := begin(b, c)
	page := first.next(t)
	second, ended2 := begin(b, c)
	if got := second.next(t); got.URL != page.URL {
		t.Errorf("two pages: %q and %q", page.URL, got.URL)
	}
	if p, ok := c.Pending(); !ok || p.URL != page.URL || time.Until(p.Expires) > 5*time.Minute {
		t.Errorf("pending %v %+v", ok, p)
	}
	visit(t, page.URL, http.StatusOK)
	if err := errors.Join(await(t, ended), await(t, ended2)); err != nil {
		t.Error(err)
	}
	if _, ok := c.Pending(); ok {
		t.Error("still pending")
	}
}

func visit(t *testing.T, address string, want int) {
	t.Helper()
	if status, err := authtest.Visit(address); err != nil || status != want {
		t.Errorf("visit: status %d, %v; want %d", status, err, want)
	}
}

// A caller that leaves does not end the sign-in.
func TestCallerLeaves(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) { c.Browser = nobody })
	left := errors.New("left")
	ctx, leave := context.WithCancelCause(context.Background())
	shown := make(prompts, 8)
	ended := make(chan error, 1)
	go func() { ended <- c.SignIn(ctx, SignInOptions{Show: shown.show}) }()
	page := shown.next(t)
	leave(left)
	if err := await(t, ended); !errors.Is(err, left) {
		t.Errorf("got %v", err)
	}
	_, again := begin(b, c)
	visit(t, page.URL, http.StatusOK)
	if err := await(t, again); err != nil {
		t.Error(err)
	}
	b.mustCall(c, "")
}

// B84: the process that opened the page goes; another finishes that very sign-in.
func TestTakeover(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	owner := b.bridge(func(c *Config) { c.Browser = nobody })
	shown, ended := begin(b, owner)
	page := shown.next(t)
	waiter := b.bridge(func(c *Config) {
		c.Browser = func(context.Context, string) error { t.Error("a second page"); return nil }
	})
	seen, done := begin(b, waiter)
	if p := seen.next(t); !p.Elsewhere || p.URL != page.URL {
		t.Errorf("the waiter shows %+v", p)
	}
	owner.Close() // as on SIGTERM
	if err := await(t, ended); err == nil {
		t.Error("the owner claims success")
	}
	if p := seen.next(t); p.Elsewhere || p.URL != page.URL {
		t.Errorf("after the takeover %+v", p)
	}
	visit(t, page.URL, http.StatusOK)
	if err := await(t, done); err != nil {
		t.Fatal(err)
	}
	b.mustCall(waiter, "")
	if l := b.Ledger(); l.Registrations != 1 || l.Codes != 1 {
		t.Errorf("%d registrations, %d codes", l.Registrations, l.Codes)
	}
}

// The same with a real process and SIGKILL.
func TestTakeoverOfAKilledProcess(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	cmd := exec.Command(os.Args[0], "helper", "signin", b.URL, b.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatal(err)
	}
	waiter := b.bridge(func(c *Config) { c.Browser = nobody })
	seen, done := begin(b, waiter)
	if p := seen.next(t); !p.Elsewhere {
		t.Errorf("the waiter shows %+v", p)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	seen.next(t) // the takeover: the callback is bound again
	visit(t, strings.TrimSpace(line), http.StatusOK)
	if err := await(t, done); err != nil {
		t.Fatal(err)
	}
	b.mustCall(waiter, "")
}

// Somebody saw the page that says that the answer has arrived: whoever took it
// may leave before anything came of it, the sign-in goes on all the same.
func TestAnswerOutlivesItsProcess(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	stuck := make(chan struct{}, 1)
	c := b.bridge(func(c *Config) {
		c.Browser = nobody
		inner := c.Transport
		c.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/token" {
				stuck <- struct{}{}
				<-r.Context().Done() // never sent
				return nil, r.Context().Err()
			}
			return inner.RoundTrip(r)
		})
	})
	shown, ended := begin(b, c)
	if status, err := authtest.Visit(shown.next(t).URL); err != nil || status != http.StatusOK {
		t.Fatalf("the page answers %d, %v", status, err)
	}
	<-stuck
	c.Close()
	if err := await(t, ended); err == nil {
		t.Error("signed in without a token")
	}
	b.mustCall(b.silent(), "")
	if l := b.Ledger(); l.Authorizations != 1 || l.Codes != 1 {
		t.Errorf("%d authorizations, %d codes", l.Authorizations, l.Codes)
	}
}

// A refusal by the person is the answer for all who wait: no further page.
func TestDeniedForAll(t *testing.T) {
	b := newBench(t, authtest.Quirks{Deny: "access_denied"})
	owner := b.bridge(func(c *Config) { c.Browser = nobody })
	shown, ended := begin(b, owner)
	page := shown.next(t)
	waiter := b.bridge(nil)
	seen, done := begin(b, waiter)
	seen.next(t)
	visit(t, page.URL, http.StatusOK)
	for _, c := range []chan error{ended, done} {
		if err := await(t, c); !errors.Is(err, ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	if got := b.browser.Opened(); len(got) != 0 {
		t.Errorf("opened %v", got)
	}
	b.Change(func(q *authtest.Quirks) { q.Deny = "" })
	b.mustCall(b.bridge(nil), "") // a later call begins anew
}

func TestTimeout(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(func(c *Config) { c.Browser = nobody; c.OAuth.Timeout = 300 * time.Millisecond })
	shown, ended := begin(b, c)
	page := shown.next(t)
	if err := await(t, ended); !errors.Is(err, ErrTimeout) {
		t.Errorf("got %v", err)
	}
	if _, err := authtest.Visit(page.URL); err == nil {
		t.Error("the callback still listens")
	}
}

// B85, B98: no browser: the device grant where offered, else the address.
func TestNoBrowser(t *testing.T) {
	t.Parallel()
	broken := func(context.Context, string) error { return errors.New("no browser found") }
	t.Run("device", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Device: true, Pendings: 2})
		c := b.bridge(func(c *Config) { c.Browser = broken })
		shown, ended := begin(b, c)
		if p := shown.next(t); p.UserCode != "" {
			t.Errorf("first %+v", p)
		}
		if p := shown.next(t); p.UserCode != "ABCD-EFGH" || !strings.HasSuffix(p.URL, "/activate?user_code=ABCD-EFGH") {
			t.Errorf("then %+v", p)
		}
		if err := await(t, ended); err != nil {
			t.Fatal(err)
		}
		b.mustCall(c, "")
		if l := b.Ledger(); l.DevicePolls != 3 || l.Authorizations != 0 {
			t.Errorf("%d polls, %d authorizations", l.DevicePolls, l.Authorizations)
		}
	})
	t.Run("device offered, page taken", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Device: true, Pendings: 1 << 20})
		c := b.bridge(func(c *Config) { c.Browser = broken })
		shown, ended := begin(b, c)
		page := shown.next(t).URL
		shown.next(t)
		if status, err := authtest.Visit(page); err != nil || status != http.StatusOK {
			t.Errorf("the page answers %d, %v", status, err)
		}
		if err := await(t, ended); err != nil {
			t.Fatal(err)
		}
		b.mustCall(c, "")
	})
	t.Run("device configured", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Device: true})
		c := b.bridge(func(c *Config) { c.OAuth.Grant = GrantDevice; c.Browser = broken })
		b.mustCall(c, "")
		b.ExpireAccess()
		b.mustCall(c, "")
		if l := b.Ledger(); l.Refreshes != 1 {
			t.Errorf("%d refreshes", l.Refreshes)
		}
	})
	t.Run("device refused", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{Device: true, Deny: "access_denied"})
		_, _, err := b.call(b.bridge(func(c *Config) { c.OAuth.Grant = GrantDevice }), "")
		if !errors.Is(err, ErrDenied) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("device not offered", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{})
		_, _, err := b.call(b.bridge(func(c *Config) { c.OAuth.Grant = GrantDevice }), "")
		if err == nil || !strings.Contains(err.Error(), "offers no device sign-in") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("pasted", func(t *testing.T) {
		b := newBench(t, authtest.Quirks{})
		c := b.bridge(func(c *Config) { c.Browser = broken })
		shown, ended := begin(b, c)
		shown.next(t)
		p := shown.next(t)
		if !p.NoBrowser {
			t.Errorf("%+v", p)
		}
		other := b.bridge(nil) // mcpbridge login in a terminal
		pasted := whereTo(t, p.URL)
		if err := other.Paste(strings.Replace(pasted, "state=", "state=x", 1)); err == nil {
			t.Error("a wrong state was accepted")
		}
		if err := other.Paste(pasted); err != nil {
			t.Fatal(err)
		}
		if err := await(t, ended); err != nil {
			t.Fatal(err)
		}
		b.mustCall(c, "")
		if err := other.Paste(pasted); err == nil {
			t.Error("pasted twice")
		}
	})
}

// whereTo is the address that a browser is sent to, without going there.
func whereTo(t *testing.T, address string) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Get("Location")
}

// The registered redirect URI is used again if its port is free, else a new
// client is registered.
func TestCallbackPortIsKept(t *testing.T) {
	b := newBench(t, authtest.Quirks{NoRefresh: true})
	c := b.bridge(nil)
	b.mustCall(c, "")
	b.ExpireAccess()
	b.mustCall(c, "")
	l := b.Ledger()
	used := l.Requested[0].Get("redirect_uri")
	if l.Registrations != 1 || l.Requested[1].Get("redirect_uri") != used {
		t.Errorf("%d registrations, %q", l.Registrations, l.Requested[1].Get("redirect_uri"))
	}
	u, err := url.Parse(used)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := net.Listen("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	b.ExpireAccess()
	b.mustCall(c, "")
	if l := b.Ledger(); l.Registrations != 2 || l.Requested[2].Get("redirect_uri") == used {
		t.Errorf("%d registrations, %q", l.Registrations, l.Requested[2].Get("redirect_uri"))
	}
}

func TestConfiguredPortInUse(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	number := foreign.Addr().(*net.TCPAddr).Port
	_, _, err = b.call(b.bridge(func(c *Config) { c.OAuth.CallbackPort = number }), "")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(number)) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("got %v", err)
	}
}

func TestSignInAgain(t *testing.T) {
	b := newBench(t, authtest.Quirks{})
	c := b.bridge(nil)
	b.mustCall(c, "")
	if err := c.SignIn(b.context(), SignInOptions{}); err != nil || b.Ledger().Authorizations != 1 {
		t.Errorf("%v, %d authorizations", err, b.Ledger().Authorizations)
	}
	if err := c.SignIn(b.context(), SignInOptions{Again: true}); err != nil || b.Ledger().Authorizations != 2 {
		t.Errorf("%v, %d authorizations", err, b.Ledger().Authorizations)
	}
}

// B134: one GET of the exact path with the state on a loopback name; the rest is
// refused and the sign-in lives on.
func TestCallback(t *testing.T) {
	t.Parallel()
	cb, err := bindCallback("127.0.0.1", 0, "/callback")
	if err != nil {
		t.Fatal(err)
	}
	cb.serve(NewSecret("the-state"))
	defer cb.close()
	base := cb.redirectURI
	good := base + "?code=c&state=the-state"
	for _, c := range []struct {
		method, address, host string
		want                  int
	}{
		{"GET", base, "", 400},
		{"GET", base + "?code=c", "", 400},
		{"GET", base + "?code=c&state=wrong", "", 400},
		{"GET", base + "?code=c&state=", "", 400},
		{"GET", base + "?code=c&state=the-state&state=the-state", "", 400},
		{"GET", base + "?code=c&code=d&state=the-state", "", 400},
		{"GET", base + "?state=the-state", "", 400},
		{"GET", base + "?code=c&error=e&state=the-state", "", 400},
		{"GET", base + "?code=%zz&state=the-state", "", 400},
		{"GET", base + "?code=c&state=the-state&x=" + strings.Repeat("a", maxCallbackQuery), "", 414},
		{"POST", good, "", 405},
		{"HEAD", good, "", 405},
		{"GET", strings.Replace(good, "/callback", "/callback/", 1), "", 404},
		{"GET", strings.Replace(good, "/callback", "/", 1), "", 404},
		{"GET", good, "evil.test", 403},
		{"GET", good, "127.0.0.1:1", 403},
		{"GET", good, "", 200},
		{"GET", good, "", 409},
	} {
		status, body := request(t, c.method, c.address, c.host)
		if status != c.want {
			t.Errorf("%s %s (%s): status %d, want %d", c.method, c.address, c.host, status, c.want)
		}
		if strings.Contains(body, "the-state") || strings.Contains(body, "<script") {
			t.Errorf("%s: the page shows %q", c.address, body)
		}
	}
	if r := <-cb.result; r.code.Reveal() != "c" {
		t.Errorf("code %q", r.code.Reveal())
	}
	for _, l := range cb.listeners {
		if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("listens on %v", l.Addr())
		}
	}
}

func request(t *testing.T, method, address, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestCallbackHosts(t *testing.T) {
	t.Parallel()
	cb, err := bindCallback("localhost", 0, "/cb")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(cb.redirectURI, "http://localhost:") {
		t.Errorf("redirect URI %q", cb.redirectURI)
	}
	cb.close()
	for _, host := range []string{"0.0.0.0", "192.0.2.1", "example.com", ""} {
		if cb, err := bindCallback(host, 0, "/"); err == nil {
			cb.close()
			t.Errorf("%q: bound", host)
		}
	}
}

// B128: the browser gets exactly one argument, a rebuilt URL, and no shell.
func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "argv")
	chosen := fmt.Sprintf(`"%s" helper record '%s'`, os.Args[0], file)
	env := func(name string) (string, bool) {
		if name == "BROWSER" {
			return "no-such-browser" + string(os.PathListSeparator) + chosen, true
		}
		return "", false
	}
	for address, want := range map[string]string{
		"https://as.example/a?x=$(touch%20" + dir + "/pwned)&y=`id`":    "",
		"https://as.example/$(touch)/a;b?state=1&x=%60id%60&z=a%26calc": "https://as.example/%24%28touch%29/a%3Bb?state=1&x=%60id%60&z=a%26calc",
		"https://as.example/a?x=%25PATH%25&q='\"":                       "https://as.example/a?q=%27%22&x=%25PATH%25",
		"http://127.0.0.1:8/authorize?a=b":                              "http://127.0.0.1:8/authorize?a=b",
		"HTTPS://as.example/?a=b":                                       "https://as.example/?a=b",
	} {
		_ = os.Remove(file)
		err := OpenBrowser(context.Background(), address, env)
		if want == "" {
			if err == nil {
				t.Errorf("%s: opened", address)
			}
			continue
		}
		got, readErr := os.ReadFile(file)
		if err != nil || readErr != nil || string(got) != want {
			t.Errorf("%s: argv %q, %v", address, got, errors.Join(err, readErr))
		}
	}
	for _, address := range []string{
		"file:///etc/passwd", "smb://x/y", "search-ms:q", "javascript:1", "-x", "--help", "https://u:p@x/", "https://x/a\nb", "https://x/#f", "",
		"https://x y/", "https:///a", "http:x",
	} {
		_ = os.Remove(file)
		if err := OpenBrowser(context.Background(), address, env); err == nil {
			t.Errorf("%q: opened", address)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%q: a program was started", address)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("a shell ran")
	}
}

func TestBrowserFailures(t *testing.T) {
	t.Parallel()
	for name, browser := range map[string]string{
		"missing": "no-such-browser", "fails": fmt.Sprintf("'%s' helper fail", os.Args[0]), "unclosed": "'x",
	} {
		err := OpenBrowser(context.Background(), "https://x/", func(n string) (string, bool) { return browser, n == "BROWSER" })
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	remote := func(n string) (string, bool) { return "1.2.3.4", n == "SSH_CONNECTION" }
	if err := OpenBrowser(context.Background(), "https://x/", remote); err == nil {
		t.Error("opened in a remote shell")
	}
	argv := browserCommands("https://x/", func(n string) (string, bool) { return "firefox -new-tab %s", n == "BROWSER" })
	if len(argv) != 1 || strings.Join(argv[0], "|") != "firefox|-new-tab|https://x/" {
		t.Errorf("argv %q", argv)
	}
}
