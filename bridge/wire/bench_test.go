package wire

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"testing"
)

func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
}

const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_item","arguments":{"id":7}}}`

// One exchange at a time over a kept connection: ours, and net/http's pool for
// comparison.
func BenchmarkExchange(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	b.Run("wire", func(b *testing.B) {
		c, err := New(Config{URL: must1(server.URL), Proxy: "direct"})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.ReportAllocs()
		for b.Loop() {
			resp, err := c.Do(b.Context(), post(call))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	b.Run("net-http", func(b *testing.B) {
		t := &http.Transport{DisableCompression: true}
		defer t.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), "POST", server.URL, bytes.NewReader([]byte(call)))
			if err != nil {
				b.Fatal(err)
			}
			req.Header = post("").Header
			resp, err := t.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

// BenchmarkParked reports what a call costs that waits for its answer, server
// side included.
func BenchmarkParked(b *testing.B) {
	const calls = 1000
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(calls)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived.Done()
		<-release
	}))
	server.Start()
	defer server.Close()
	c, err := New(Config{URL: must1(server.URL), Proxy: "direct"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			if resp, err := c.Do(b.Context(), post(call)); err == nil {
				resp.Body.Close()
			}
		})
	}
	arrived.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/calls, "B/call")
	close(release)
	group.Wait()
}

func must1(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u
}
