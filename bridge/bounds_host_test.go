package bridge

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A schema that is nested without end, or too large to be read once for each of
// its levels, is refused by the bound on either, whatever the machine.
func TestHostileSchema(t *testing.T) {
	t.Parallel()
	const annotation = `{"type":"string","x-mcp-header":"Region"}`
	nested := func(depth int, open, end string) string {
		return `{"type":"object","properties":{"r":` + annotation + `},` + strings.Repeat(open, depth) + strings.Repeat(end, depth) + `}`
	}
	wide := `{"properties":{"r":` + annotation + `},"$defs":` + strings.Repeat(`{"a":`, 50) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat(`}`, 50) + `}`
	for name, c := range map[string]struct{ schema, want string }{
		"deep, elsewhere":  {nested(500, `"anyOf":[{`, `}]`), "nested deeper than 64"},
		"deep, properties": {`{"properties":{"r":` + annotation + `,` + strings.Repeat(`"a":{"properties":{`, 500) + strings.Repeat(`}}`, 500) + `}}`, "nested deeper than 64"},
		"wide":             {wide, "too large"},
	} {
		_, err := paramHeaders([]byte(c.schema))
		walk := headerWalk{seen: map[string]bool{}, left: maxSchemaWork}
		_ = walk.object([]byte(c.schema), nil, true) // refused as above
		if walk.left < -len(c.schema) {
			t.Errorf("%s: %d bytes were read, more than %d and one look at it", name, maxSchemaWork-walk.left, maxSchemaWork)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	found, err := paramHeaders([]byte(`{"properties":{"r":` + annotation + `,"o":{"properties":{"k":{"type":"integer","x-mcp-header":"Key"}}}}}`))
	if err != nil || len(found) != 2 {
		t.Errorf("an ordinary schema: %v, %v", found, err)
	}
}

// modernMeta is the metadata of a modern host's request.
func modernMeta(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bounds","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// A host has so many subscriptions and no more, and is told so; one that it ends
// makes room.
func TestBoundOfListens(t *testing.T) {
	t.Parallel()
	r := newBoundsRig(t, newFloodServer(t, &floodServer{}).URL, nil)
	listen := func(id, filter string) {
		r.send(`{"jsonrpc":"2.0","id":%q,"method":"subscriptions/listen","params":{"notifications":%s,%s}}`, id, filter, modernMeta(`{}`))
	}
	for i := range maxListens {
		listen(fmt.Sprint("s", i), `{"toolsListChanged":true}`)
		r.wait("acknowledgment", func(line string) bool {
			return strings.Contains(line, "subscriptions/acknowledged") && strings.Contains(line, fmt.Sprintf(`"s%d"`, i))
		})
	}
	listen("more", `{"toolsListChanged":true}`)
	if line := r.answer(`"more"`); !strings.Contains(line, fmt.Sprint(codeOverloaded)) || !strings.Contains(line, "64 subscriptions are open") {
		t.Error(line)
	}
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s0"}}`)
	for n := 0; ; n++ { // until it has ended
		id := fmt.Sprint("again", n)
		listen(id, `{"toolsListChanged":true}`)
		line := r.wait("answer", func(line string) bool { return strings.Contains(line, `"`+id+`"`) })
		if strings.Contains(line, "acknowledged") {
			break
		}
	}
	uris := make([]string, maxURIs+1)
	for i := range uris {
		uris[i] = fmt.Sprintf("%q", fmt.Sprint("x:", i))
	}
	listen("uris", `{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`)
	if line := r.answer(`"uris"`); !strings.Contains(line, "1025 resources are too many") {
		t.Error(line)
	}
}

// A legacy host subscribes to so many resources and no more.
func TestBoundOfSubscriptions(t *testing.T) {
	t.Parallel()
	l := newListens(nil)
	for i := range maxURIs {
		if !l.subscribe(fmt.Sprint("x:", i), true) {
			t.Fatalf("no room for resource %d", i)
		}
	}
	if l.subscribe("x:more", true) {
		t.Error("room for one too many")
	}
	if !l.subscribe("x:5", true) || !l.subscribe("x:6", false) || !l.subscribe("x:more", true) {
		t.Error("one that is known, or in place of another, was refused")
	}
}

// A host that declares something else with every request has so many sessions,
// and what it used last is among them.
func TestBoundOfProfiles(t *testing.T) {
	t.Parallel()
	const profiles = 3 * maxSessions
	s := newFloodServer(t, &floodServer{})
	var mu sync.Mutex
	open, deleted := map[string]bool{}, 0
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Mcp-Session-Id")
		mu.Lock()
		switch {
		case r.Method == http.MethodDelete:
			delete(open, id)
			deleted++
		case r.Method == http.MethodPost && id != "":
			open[id] = true
		}
		mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	r := newBoundsRig(t, s.URL, nil)
	for i := range profiles {
		r.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read",%s}}`, i, modernMeta(fmt.Sprintf(`{"experimental":{"n%d":{}}}`, i)))
		if line := r.answer(fmt.Sprint(i)); !strings.Contains(line, `"content"`) {
			t.Fatal(line)
		}
	}
	up := r.bridge.link.known().(*legacy)
	up.mu.Lock()
	sessions := len(up.sessions)
	last := up.sessions[modernKey(t, fmt.Sprintf(`{"experimental":{"n%d":{}}}`, profiles-1))]
	up.mu.Unlock()
	if sessions > maxSessions || last == nil {
		t.Errorf("%d sessions, the last %v", sessions, last)
	}
	o := r.bridge.offers
	o.mu.Lock()
	offers := len(o.all)
	o.mu.Unlock()
	if offers > maxProfiles {
		t.Errorf("%d profiles at hand", offers)
	}
}

// modernKey is the profile key of a modern request with such capabilities.
func modernKey(t *testing.T, capabilities string) string {
	t.Helper()
	m, err := jsonrpc.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta(capabilities) + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return modernProfile(&m).key
}

// A known list that could not be looked at again is looked at once more; a 401
// for a call of the host drops it, a 403 does not.
func TestKnownListIsTriedAgainAndDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newFloodServer(t, &floodServer{})
	var mu sync.Mutex
	lists, failures, refuse := 0, 0, 0
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, m := peek(r)
		mu.Lock()
		status := 0
		switch m.Method {
		case "tools/list":
			if lists++; lists <= failures {
				status = http.StatusServiceUnavailable
			} else if refuse == http.StatusUnauthorized {
				status = refuse // no other fetch brings it back
			}
		case "tools/call":
			status = refuse
		}
		mu.Unlock()
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		r.Body = body
		inner.ServeHTTP(w, r)
	})
	first := newBoundsRig(t, s.URL, func(c *Config) { c.StateDir = dir })
	first.shakeHands(`{}`)
	first.awaitFreshList()
	mu.Lock()
	lists, failures = 0, 3
	mu.Unlock()
	second := newBoundsRig(t, s.URL, func(c *Config) { c.StateDir = dir })
	second.shakeHands(`{}`) // from disk
	second.awaitFreshList()
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		known := status == http.StatusForbidden
		mu.Lock()
		refuse = status
		mu.Unlock()
		second.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read"}}`, status)
		second.answer(fmt.Sprint(status))
		if second.known("read") != known {
			t.Errorf("after %d: known is %v", status, !known)
		}
	}
}

// known reports whether a tool is in the list at hand.
func (r *boundsRig) known(tool string) bool {
	return r.bridge.offers.tool(legacyProfile(rev2025_11_25, nil, nil), tool) != nil
}

// awaitFreshList waits until the list at hand is one that this process fetched.
func (r *boundsRig) awaitFreshList() {
	r.t.Helper()
	limit := time.NewTimer(boundsLimit)
	defer limit.Stop()
	o, p := r.bridge.offers, legacyProfile(rev2025_11_25, nil, nil)
	for {
		o.mu.Lock()
		f := o.offer(p)
		fresh, busy, changed := f.catalogue != nil && f.catalogue.fresh, f.fetching, f.changed
		o.mu.Unlock()
		if fresh && !busy {
			return
		}
		if fresh { // its end changes nothing that is told
			runtime.Gosched()
			continue
		}
		select {
		case <-changed:
		case <-limit.C:
			r.t.Fatal("no list was fetched")
		}
	}
}
