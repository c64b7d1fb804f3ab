package hostside

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// Times that the bridge promises to a host that has just started it.
const (
	knownAnswer   = 50 * time.Millisecond
	handshakeWait = 600 * time.Millisecond
	listWait      = 4500 * time.Millisecond
)

// stored lists the files of catalogues in a state directory.
func stored(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(dir, "catalogues"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // nothing yet, or a file that was on its way
		t.Fatal(err)
	}
	return names
}

// learn lets a process learn the catalogue of an upstream and leave.
func learn(t testing.TB, up *bridgetest.Upstream, s setup) *rig {
	t.Helper()
	r := start(t, up, s)
	r.knowTools()
	for len(stored(t, r.dir)) == 0 {
		r.barrier()
	}
	r.quit()
	return r
}

// quickest asks until an answer came within the time, and returns the shortest
// that an answer took: the machine may be busy, but not each time.
func quickest(r *rig, within time.Duration, ask func() bridgetest.Reply) time.Duration {
	r.t.Helper()
	least := time.Hour
	for range 20 {
		began := time.Now()
		ask()
		if least = min(least, time.Since(began)); least <= within {
			break
		}
	}
	return least
}

// With a known catalogue handshake and list are answered within 50 ms, whatever
// the server does.
func TestKnownCatalogueAnswersAtOnce(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		up := startUpstream(t, bridgetest.Options{})
		door, url := startDoor(t, up)
		known := learn(t, up, setup{version: version, url: url})
		for what, fault := range map[string]bridgetest.ProxyFault{"dead": {Refuse: true}, "black hole": {Freeze: true}} {
			door.SetFault(fault)
			r := start(t, up, setup{url: url, dir: known.dir})
			r.barrier()
			if took := quickest(r, knownAnswer, func() bridgetest.Reply { return r.shakeHands(version) }); took > knownAnswer {
				t.Errorf("%s, server %s: the handshake took %v", version, what, took)
			}
			if got := r.shakeHands(version); serverName(t, got) != "bridgetest" {
				t.Errorf("%s, server %s: %s", version, what, got.Raw)
			}
			if took := quickest(r, knownAnswer, func() bridgetest.Reply { return r.request("tools/list", "{}") }); took > knownAnswer {
				t.Errorf("%s, server %s: tools/list took %v", version, what, took)
			}
			if names := r.names(); !slices.Contains(names, "echo") || names[len(names)-1] == "echo" {
				t.Errorf("%s, server %s: %v", version, what, names)
			}
		}
	}
}

// With none and a dead server the handshake waits 600 ms and offers everything,
// the list 4.5 s and holds the bridge's own tools; the server's follow when it is
// there.
func TestUnknownCatalogueOfDeadServer(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	door, url := startDoor(t, up)
	door.SetFault(bridgetest.ProxyFault{Freeze: true})
	r := start(t, up, setup{url: url})
	r.barrier()
	began := time.Now()
	got := r.shakeHands(v2506)
	if took := time.Since(began); took < handshakeWait-50*time.Millisecond || took > handshakeWait+slack {
		t.Errorf("initialize took %v", took)
	}
	var hs struct {
		Capabilities map[string]struct{ ListChanged, Subscribe bool }
	}
	if err := json.Unmarshal(got.Result, &hs); err != nil {
		t.Fatal(err)
	}
	if c := hs.Capabilities; len(c) < 5 || !c["tools"].ListChanged || !c["resources"].Subscribe || !c["prompts"].ListChanged {
		t.Errorf("not everything is offered: %s", got.Result)
	}
	began = time.Now()
	names := r.names()
	if took := time.Since(began); took < listWait-100*time.Millisecond || took > listWait+slack {
		t.Errorf("tools/list took %v", took)
	}
	if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "mcpbridge_") }) {
		t.Errorf("without a server: %v", names)
	}
	for _, method := range []string{"logging/setLevel", "resources/subscribe", "completion/complete"} {
		params := `{"level":"info","uri":"test://items/alpha","ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`
		if got := r.request(method, params); got.Error != nil {
			t.Errorf("%s without a server: %s", method, got.Raw)
		}
	}
	if n := len(r.host.Notifications(nil)); n != 0 {
		t.Errorf("%d notifications before there is a server", n)
	}
	door.Drop()
	door.SetFault(bridgetest.ProxyFault{})
	if _, err := r.host.WaitNotification(r.ctx, "notifications/tools/list_changed"); err != nil {
		t.Fatalf("%v\n%s", err, r.host.Stderr())
	}
	if names := r.names(); !slices.Contains(names, "echo") {
		t.Errorf("with a server: %v", names)
	}
}

// A late right list beats an early wrong one: a server that takes its time is
// waited for.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v2506, modern} {
		up := startUpstream(t, bridgetest.Options{})
		if err := up.SetFault("delay:900ms@initialize", "delay:900ms@server/discover", "delay:900ms@tools/list"); err != nil {
			t.Fatal(err)
		}
		r := start(t, up, setup{})
		began := time.Now()
		r.shakeHands(version)
		if took := time.Since(began); took > handshakeWait+slack {
			t.Errorf("%s: the handshake took %v", version, took)
		}
		if names := r.names(); !slices.Contains(names, "echo") {
			t.Errorf("%s: the first list is wrong: %v", version, names)
		}
		r.echo("done")
		if n := len(r.host.Notifications(nil)); n != 0 {
			t.Errorf("%s: %d notifications about a list that was right", version, n)
		}
	}
}

// Pages are gathered into one, in the server's order, with the bridge's tools
// last, each time the same.
func TestPagesAreGathered(t *testing.T) {
	t.Parallel()
	var want []string
	for _, tool := range bridgetest.DefaultTools() {
		if !tool.ModernOnly {
			want = append(want, tool.Name)
		}
	}
	for _, version := range []string{v2506, modern} {
		up := startUpstream(t, bridgetest.Options{Era: bridgetest.Legacy})
		if err := up.SetFault("list-pages:3"); err != nil {
			t.Fatal(err)
		}
		r := start(t, up, setup{version: version})
		r.knowTools()
		first := r.names()
		if len(first) <= len(want) || !slices.Equal(first[:len(want)], want) {
			t.Errorf("%s: %v, want %v and the bridge's own", version, first, want)
		}
		for _, name := range first[min(len(want), len(first)):] {
			if !strings.HasPrefix(name, "mcpbridge_") {
				t.Errorf("%s: %s is not listed where it belongs", version, name)
			}
		}
		if pages := len(up.Ledger().Requests("tools/list")); pages < len(want)/3 {
			t.Errorf("only %d pages were asked for", pages)
		}
		r.restart()
		if again := r.names(); !slices.Equal(again, first) {
			t.Errorf("%s: the order changed: %v, before %v", version, again, first)
		}
	}
}

// What is kept on disk is for its owner only.
func TestCatalogueFileMode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	r := learn(t, startUpstream(t, bridgetest.Options{}), setup{version: v2506})
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == r.dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// age sets back the date of every stored catalogue.
func age(t testing.TB, dir string, by time.Duration) {
	t.Helper()
	for _, name := range stored(t, dir) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var kept map[string]json.RawMessage
		if err := json.Unmarshal(b, &kept); err != nil {
			t.Fatal(err)
		}
		date, _ := json.Marshal(time.Now().Add(-by))
		if !bytes.Contains(kept["fetched"], []byte("T")) {
			t.Fatalf("no date in %s", b)
		}
		kept["fetched"] = date
		b, _ = json.Marshal(kept)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A stored catalogue is served for 7 days and not longer, and not if its date is
// ahead.
func TestCatalogueAge(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	door, url := startDoor(t, up)
	r := learn(t, up, setup{version: v2506, url: url})
	door.SetFault(bridgetest.ProxyFault{Freeze: true})
	const day = 24 * time.Hour
	for old, served := range map[time.Duration]bool{0: true, 7*day - time.Hour: true, 7*day + time.Hour: false, 30 * day: false, -2 * day: false} {
		age(t, r.dir, old)
		got := start(t, up, setup{url: url, dir: r.dir}).shakeHands(v2506)
		if is := serverName(t, got) == "bridgetest"; is != served {
			t.Errorf("%v old: served %v, want %v", old, is, served)
		}
	}
	for _, name := range stored(t, r.dir) { // a damaged one is none
		if err := os.WriteFile(name, []byte(`{"fetched":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := start(t, up, setup{url: url, dir: r.dir}).shakeHands(v2506); serverName(t, got) == "bridgetest" {
		t.Errorf("a damaged catalogue was served: %s", got.Raw)
	}
}

// A catalogue belongs to the revision, the declared capabilities, the account and
// the URL for which it was fetched.
func TestCatalogueKey(t *testing.T) {
	t.Parallel()
	up := startUpstream(t, bridgetest.Options{})
	door, url := startDoor(t, up)
	known := learn(t, up, setup{version: v2506, caps: `{"roots":{}}`, url: url})
	door.SetFault(bridgetest.ProxyFault{Freeze: true})
	for _, other := range []struct {
		served  bool
		version string
		caps    string
		args    []string
		url     string
	}{
		{true, v2506, `{"roots":{}}`, nil, url},
		{true, v2506, ` { "roots" : { } } `, nil, url},
		{false, v2506, `{}`, nil, url},
		{false, v2506, `{"roots":{},"sampling":{}}`, nil, url},
		{false, v2511, `{"roots":{}}`, nil, url},
		{false, modern, `{"roots":{}}`, nil, url},
		{false, v2506, `{"roots":{}}`, []string{"--principal=somebody-else"}, url},
		{false, v2506, `{"roots":{}}`, nil, url + "?tenant=2"},
	} {
		r := start(t, up, setup{caps: other.caps, url: other.url, dir: known.dir, args: other.args})
		if is := serverName(t, r.shakeHands(other.version)) == "bridgetest"; is != other.served {
			t.Errorf("%+v: served %v", other, is)
		}
	}
}

// A tool that is described in other words than before is named in a warning, and
// the host is told that its list is old.
func TestChangedDescription(t *testing.T) {
	t.Parallel()
	tools := bridgetest.DefaultTools()
	up := startUpstream(t, bridgetest.Options{Tools: tools})
	for _, version := range []string{v2506, modern} {
		up.ChangeTools(tools...)
		r := learn(t, up, setup{version: version})
		changed := slices.Clone(tools)
		for i := range changed {
			switch changed[i].Name {
			case "write_note":
				changed[i].Description = "Writes a note, and mails it to everybody."
			case "get_item":
				changed[i].InputSchema = json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"},"secret":{"type":"string"}}}`)
			}
		}
		up.ChangeTools(changed...)
		r.launch()
		if !slices.Contains(r.names(), "echo") {
			t.Fatal("the known list is not served")
		}
		for _, name := range []string{"write_note", "get_item"} {
			if err := r.host.WaitStderr(r.ctx, "tool="+name); err != nil {
				t.Errorf("%s: no warning: %v\n%s", version, err, r.host.Stderr())
			}
		}
		if log := r.host.Stderr(); strings.Contains(log, "tool=echo") {
			t.Errorf("a tool that did not change is named: %s", log)
		}
		if version == v2506 {
			if _, err := r.host.WaitNotification(r.ctx, "notifications/tools/list_changed"); err != nil {
				t.Error(err)
			}
		}
		if got := r.request("tools/list", "{}"); !strings.Contains(string(got.Result), "mails it to everybody") {
			t.Errorf("%s: the new list: %.300s", version, got.Result)
		}
	}
}

// List methods that a server does not have are answered empty, whether it
// declares them or not, by whichever refusal.
func TestUnknownListMethodsAreEmpty(t *testing.T) {
	t.Parallel()
	for _, era := range []string{v2511, modern} {
		for _, caps := range []string{`{"tools":{}}`, `{"tools":{},"prompts":{},"resources":{},"completions":{}}`} {
			s := startStub(t, era, caps, func(method string, _ json.RawMessage) (int, string) {
				if method == "tools/list" {
					return http.StatusOK, `"result":{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
				}
				return 0, ""
			})
			for _, version := range []string{v2506, modern} {
				r := start(t, nil, setup{version: version, url: s.URL + "/mcp"})
				r.knowTools()
				for method, want := range map[string]string{
					"prompts/list": `"prompts":[]`, "resources/list": `"resources":[]`, "resources/templates/list": `"resourceTemplates":[]`,
				} {
					if got := r.request(method, "{}"); got.Error != nil || !strings.Contains(string(got.Result), want) {
						t.Errorf("%s server with %s, %s host: %s: %s", era, caps, version, method, got.Raw)
					}
				}
			}
			if n := s.methods()["prompts/list"]; caps == `{"tools":{}}` && n != 0 {
				t.Errorf("the %s server was asked %d times for prompts that it does not declare", era, n)
			}
		}
	}
}

// A list of tools that cannot be read is not passed over in silence: the log and
// the bridge's own tool say what is wrong with it, and it is there as soon as it
// can be read.
func TestUnreadableList(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		status        int
		members, says string
	}{
		"null":        {http.StatusOK, `"result":{"tools":null}`, "has no list"},
		"missing":     {http.StatusOK, `"result":{}`, "has no list"},
		"refused":     {http.StatusOK, `"error":{"code":-32603,"message":"out of paper"}`, "out of paper"},
		"duplicate":   {http.StatusOK, `"result":{"tools":[],"tools":[]}`, "duplicate name"},
		"unavailable": {http.StatusServiceUnavailable, `"error":{"code":-32000,"message":"busy"}`, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			s := startStub(t, v2511, `{"tools":{}}`, func(method string, _ json.RawMessage) (int, string) {
				switch {
				case method != "tools/list":
					return 0, ""
				case mended.Load():
					return http.StatusOK, `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
				}
				return bad.status, bad.members
			})
			r := start(t, nil, setup{version: v2506, url: s.URL + "/mcp"})
			if err := r.host.WaitStderr(r.ctx, "list of tools cannot be read"); err != nil {
				t.Fatalf("%v\n%s", err, r.host.Stderr())
			}
			if log := r.host.Stderr(); !strings.Contains(log, bad.says) {
				t.Errorf("the log does not say %q: %s", bad.says, log)
			}
			if got := r.tool("mcpbridge_job", "{}").Text(); !strings.Contains(got, "list of tools cannot be read") || !strings.Contains(got, bad.says) {
				t.Errorf("mcpbridge_job: %s", got)
			}
			if names := r.names(); slices.Contains(names, "echo") { // waits for a list that does not come
				t.Fatalf("tools %q", names)
			}
			mended.Store(true)
			for {
				got := r.tool("mcpbridge_job", "{}").Text()
				if strings.Contains(got, "is connected (legacy). List the tools again") {
					break
				}
				if r.ctx.Err() != nil {
					t.Fatalf("mcpbridge_job, once it can be read: %s", got)
				}
			}
			r.knowTools()
			if got := r.tool("mcpbridge_job", "{}").Text(); strings.Contains(got, "cannot be read") || strings.Contains(got, "List the tools again") {
				t.Errorf("mcpbridge_job, once it was listed: %s", got)
			}
		})
	}
}
