package wire

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/classify"
)

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	header := func(name, value string) func(*Config) {
		return func(cfg *Config) { cfg.Headers = http.Header{name: {value}} }
	}
	for _, test := range []struct {
		name, words string
		change      func(*Config)
	}{
		{"no URL", "no URL", func(cfg *Config) { cfg.URL = nil }},
		{"scheme", "neither http nor https", func(cfg *Config) { cfg.URL = parse(t, "ftp://a.example/") }},
		{"no host", "names no host", func(cfg *Config) { cfg.URL = parse(t, "http:///mcp") }},
		{"key", "sent twice", header("Idempotency-Key", secret)},
		{"other key", "sent twice", header("x-idempotency-key", secret)},
		{"framing", "belongs to the connection", header("Transfer-Encoding", secret)},
		{"header name", "cannot be the name", header("a b", secret)},
		{"header value", "line break", header("X-Key", secret+"\r\nX: y")},
		{"proxy", "not a URL", func(cfg *Config) { cfg.Proxy = "http://user:" + secret + "@[::1" }},
		{"proxy scheme", "not supported", func(cfg *Config) { cfg.Proxy = "ftp://user:" + secret + "@proxy.example" }},
		{"missing CA", "--ca-cert", func(cfg *Config) { cfg.CACertFile = filepath.Join(t.TempDir(), "none.pem") }},
		{"junk CA", "junk.pem", func(cfg *Config) { cfg.CACertFile = junk }},
		{"junk certificate", "junk.pem", func(cfg *Config) { cfg.ClientCertFile = junk }},
		{"key alone", "--client-cert", func(cfg *Config) { cfg.ClientKeyFile = junk }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{URL: parse(t, "http://a.example/mcp"), Proxy: "direct"}
			test.change(&cfg)
			_, err := New(cfg)
			if err == nil || !strings.Contains(err.Error(), test.words) {
				t.Fatalf("error %v, want %q", err, test.words)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q holds a secret", err)
			}
		})
	}
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	var got http.Header
	var host string
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host })
	c := client(t, strings.Replace(s.URL, "://", "://user:"+secret+"@", 1)+"/mcp#part", func(cfg *Config) {
		cfg.Headers = http.Header{"x-key": {"a", "b"}, "Accept": {"configured"}, "Host": {"virtual.example"}}
	})
	must(t, c, post("{}"))
	for name, want := range map[string]string{
		"X-Key": "a,b", "Accept": "application/json, text/event-stream", "User-Agent": "mcpbridge/test",
		"Accept-Encoding": "identity", "Authorization": "Basic dXNlcjpzd29yZGZpc2g=", "Content-Length": "2",
	} {
		if value := strings.Join(got[name], ","); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	if host != "virtual.example" {
		t.Errorf("host %q", host)
	}
	r := post("{}")
	r.Header["Idempotency-Key"] = []string{"1"}
	proves(t, fails(t, c, r), classify.Connect, classify.NothingSent, "sent twice")
	r = post("{}")
	r.Header["Mcp-Name"] = []string{secret + "\n"}
	f := fails(t, c, r)
	proves(t, f, classify.Connect, classify.NothingSent, "Mcp-Name")
	if strings.Contains(f.Detail, secret) {
		t.Errorf("detail %q holds the value", f.Detail)
	}
}

// A tripper is a middleware made of a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestMiddleware(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
		}
	})
	with := func(f func(http.RoundTripper, *http.Request) (*http.Response, error)) *Client {
		return client(t, s.URL+"/mcp", func(cfg *Config) {
			cfg.Middleware = func(next http.RoundTripper) http.RoundTripper {
				return tripper(func(r *http.Request) (*http.Response, error) { return f(next, r) })
			}
		})
	}
	must(t, with(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer x")
		return next.RoundTrip(r)
	}), post("{}"))
	s.got(t, "POST /mcp {} Bearer x", "POST /mcp/ {} Bearer x")

	broken := errors.New("sign-in needed")
	f := fails(t, with(func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, broken }), post("{}"))
	proves(t, f, classify.Exchange, classify.NothingSent, "sign-in needed")
	if !errors.Is(f, broken) {
		t.Errorf("cause %v", f.Err)
	}

	f = fails(t, with(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		return next.RoundTrip(r)
	}), post("{}"))
	proves(t, f, classify.Exchange, classify.MaybeSent, "second time")

	// On a kept connection as on a new one: no other is tried in turn.
	c := with(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		if r.Method == "DELETE" {
			r.Header.Set("Authorization", "two\nlines")
		}
		return next.RoundTrip(r)
	})
	must(t, c, get())
	f = fails(t, c, &Request{Method: "DELETE"})
	proves(t, f, classify.Exchange, classify.NothingSent, "could not carry the request", "Authorization")

	f = fails(t, with(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Host = "127.0.0.1:1"
		return next.RoundTrip(r)
	}), post("{}"))
	proves(t, f, classify.Connect, classify.NothingSent, "not on the configured server")
	s.got(t, "POST /mcp {} Bearer x", "POST /mcp/ {} Bearer x", "POST /mcp {} ",
		"GET /mcp  ", "GET /mcp/  ")
}

func TestContentEncodings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, coding, text, words string
		write                     func(http.ResponseWriter)
	}{
		{"gzip", "gzip", "{}", "", func(w http.ResponseWriter) { z := gzip.NewWriter(w); z.Write([]byte("{}")); z.Close() }},
		{"no gzip", "gzip", "", "Content-Encoding: gzip", func(w http.ResponseWriter) { io.WriteString(w, "{}") }},
		{"short gzip", "GZIP", "", "Content-Encoding: gzip", func(w http.ResponseWriter) {
			z := gzip.NewWriter(w)
			z.Write([]byte("{}"))
			z.Flush()
		}},
		{"br", "br", "", "Content-Encoding: br", func(w http.ResponseWriter) { io.WriteString(w, "xx") }},
		{"identity", "identity", "{}", "", func(w http.ResponseWriter) { io.WriteString(w, "{}") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", test.coding)
				test.write(w)
			})
			resp, err := client(t, s.URL).Do(bounded(t), post("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if test.words == "" {
				if err != nil || string(text) != test.text {
					t.Errorf("read %q, %v", text, err)
				}
				return
			}
			proves(t, asFailure(t, err), classify.Exchange, classify.MaybeSent, test.words)
		})
	}
}

// Events of a compressed stream come as they are flushed.
func TestGzipEventStream(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for _, event := range []string{"data: 1\n\n", "data: 2\n\n"} {
			io.WriteString(z, event)
			z.Flush()
			w.(http.Flusher).Flush()
			<-next
		}
		z.Close()
	})
	resp, err := client(t, s.URL).Do(bounded(t), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	event := make([]byte, len("data: 1\n\n"))
	for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
		if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != want {
			t.Fatalf("read %q, %v; want %q", event, err, want)
		}
		next <- struct{}{}
	}
}

func TestSleepWatch(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name       string
		wall, mono time.Duration
		slept      bool
	}{
		{"awake", 5 * time.Second, 5 * time.Second, false},
		{"late tick", 20 * time.Second, 20 * time.Second, false},
		{"monotonic clock stood", 40 * time.Second, 5 * time.Second, true},
		{"clock set a little", 30 * time.Second, 5 * time.Second, false},
		{"clock set back", -time.Hour, 5 * time.Second, false},
		{"both ran on", time.Minute, time.Minute, true},
	} {
		var w SleepWatch
		if w.slept(start, time.Second) {
			t.Errorf("%s: slept before the first look", test.name)
		}
		if got := w.slept(start.Add(test.wall), time.Second+test.mono); got != test.slept {
			t.Errorf("%s: slept %v, want %v", test.name, got, test.slept)
		}
		if w.slept(start.Add(test.wall+sleepTick), time.Second+test.mono+sleepTick) {
			t.Errorf("%s: the next look reports it again", test.name)
		}
	}
}

func TestSleepWatchRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w SleepWatch
		woken := 0
		go w.Run(t.Context(), func() { woken++ })
		<-time.After(time.Minute)
		synctest.Wait()
		if woken != 0 {
			t.Errorf("woken %d times without a sleep", woken)
		}
	})
}

func TestWakeIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w SleepWatch
		start, looks, woken := time.Now().Round(0), 0, make(chan time.Time, 9)
		slept := func() bool { // the third look comes two minutes of wall time late
			at := start.Add(time.Duration(looks) * sleepTick)
			if looks >= 2 {
				at = at.Add(2 * time.Minute)
			}
			looks++
			return w.slept(at, time.Duration(looks)*sleepTick)
		}
		go run(t.Context(), slept, func() { woken <- time.Now() })
		if at := <-woken; at.Sub(start) != 2*sleepTick {
			t.Errorf("told after %v", at.Sub(start))
		}
		<-time.After(time.Minute)
		if len(woken) != 0 {
			t.Error("told twice")
		}
	})
}

func TestRestTrustsNoClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		since time.Time
		want  time.Duration
	}{
		{now.Add(-time.Second), time.Second},
		{now.Round(0).Add(-time.Hour), time.Hour},
		{now.Round(0).Add(time.Hour), idleFor}, // the clock was set back
	} {
		if got := rest(test.since, now); got < test.want || got > test.want+time.Second {
			t.Errorf("rested %v, want %v", got, test.want)
		}
	}
}

// With many connections at rest, the pool closes them all when their time is
// over.
func TestPoolReaps(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, echo)
	c := client(t, s.url)
	must(t, c, post("{}"))
	c.pool.mu.Lock()
	c.pool.idle[0].rested = time.Now().Add(-idleFor)
	c.pool.mu.Unlock()
	c.pool.reap()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if len(c.pool.idle)+len(c.pool.all) != 0 || c.pool.reaping != nil {
		t.Errorf("%d idle, %d known, timer %v", len(c.pool.idle), len(c.pool.all), c.pool.reaping)
	}
}
