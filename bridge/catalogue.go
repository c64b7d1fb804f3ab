package bridge

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// A catalogue is what a server offers to one profile: its handshake and its
// tools. It does not change; a newer one replaces it.
type catalogue struct {
	handshake handshake
	era       era
	tools     []*tool
	byListed  map[string]*tool
	hints     cacheHints
	more      []byte // what else the server's list says, JSON object; nil for nothing
	fetched   time.Time
	fresh     bool // fetched by this process, not read from disk
}

// maxCatalogueAge is how long a stored catalogue may be served.
const maxCatalogueAge = 7 * 24 * time.Hour

func newCatalogue(h handshake, e era, raws [][]byte, hints cacheHints, box *toolbox, fetched time.Time) *catalogue {
	c := &catalogue{handshake: h, era: e, hints: hints, fetched: fetched, byListed: map[string]*tool{}}
	for _, raw := range raws {
		t, ok := box.read(raw, e)
		if !ok || box.hidden(t.name) || c.byListed[t.listed] != nil {
			continue
		}
		c.tools = append(c.tools, t)
		c.byListed[t.listed] = t
	}
	return c
}

// sameAs reports whether two catalogues list the same tools in the same words.
func (c *catalogue) sameAs(other *catalogue) bool {
	if len(c.tools) != len(other.tools) {
		return false
	}
	for i, t := range c.tools {
		if t.listed != other.tools[i].listed || !bytes.Equal(t.raw, other.tools[i].raw) {
			return false
		}
	}
	return true
}

// changed names the tools that both list in different words: what a model was
// told about them is no longer true.
func (c *catalogue) changed(old *catalogue) []string {
	var names []string
	for _, t := range c.tools {
		if before := old.byListed[t.listed]; before != nil && !bytes.Equal(before.raw, t.raw) {
			names = append(names, t.listed)
		}
	}
	return names
}

// A shelf keeps catalogues in the state directory: a directory for each server
// URL and principal, a file for each protocol version and declared capabilities.
type shelf struct {
	dir string // empty: nothing is kept
	url string
	now func() time.Time
}

// ForgetCatalogues removes what a state directory holds of an account's
// catalogues of one server.
func ForgetCatalogues(stateDir string, server *url.URL, principal string) error {
	if stateDir == "" {
		return nil
	}
	s := shelf{dir: stateDir, url: server.String()}
	return os.RemoveAll(s.room(principal))
}

// room is the directory of one principal.
func (s *shelf) room(who string) string {
	return filepath.Join(s.dir, "catalogues", shortHash(s.url, who))
}

// shelved is a catalogue as it is stored.
type shelved struct {
	Fetched      time.Time         `json:"fetched"`
	Modern       bool              `json:"modern"`
	Version      string            `json:"version"`
	Capabilities json.RawMessage   `json:"capabilities"`
	ServerInfo   json.RawMessage   `json:"serverInfo,omitempty"`
	Instructions json.RawMessage   `json:"instructions,omitempty"`
	TTLMs        int64             `json:"ttlMs"`
	Scope        string            `json:"cacheScope"`
	More         json.RawMessage   `json:"more,omitempty"`
	ListMore     json.RawMessage   `json:"listMore,omitempty"`
	Tools        []json.RawMessage `json:"tools"`
}

func (s *shelf) file(who string, p *profile) string {
	return filepath.Join(s.room(who), shortHash(p.version, p.key)+".json")
}

// load returns the stored catalogue for p, or nil.
func (s *shelf) load(who string, p *profile, box *toolbox) *catalogue {
	if s.dir == "" {
		return nil
	}
	b, err := os.ReadFile(s.file(who, p))
	if err != nil {
		return nil
	}
	var stored shelved
	if json.Unmarshal(b, &stored) != nil {
		return nil // damaged, or of another version of the program: fetched anew
	}
	if age := s.now().Sub(stored.Fetched); age > maxCatalogueAge || age < -time.Hour {
		return nil
	}
	raws := make([][]byte, len(stored.Tools))
	for i, t := range stored.Tools {
		raws[i] = t
	}
	e := legacyEra
	if stored.Modern {
		e = modernEra
	}
	h := handshake{stored.Version, objectOr(stored.Capabilities, "{}"), stored.ServerInfo, stored.Instructions, objectOr(stored.More, "")}
	c := newCatalogue(h, e, raws, cacheHints{scope: stored.Scope}, box, stored.Fetched)
	c.more = objectOr(stored.ListMore, "")
	return c
}

// save stores c for p. raws are the tools as upstream listed them: what is
// hidden by configuration may be wanted next time.
func (s *shelf) save(who string, p *profile, c *catalogue, raws [][]byte) error {
	if s.dir == "" {
		return nil
	}
	stored := shelved{
		Fetched: c.fetched, Modern: c.era == modernEra, Version: c.handshake.Version,
		Capabilities: c.handshake.Capabilities, ServerInfo: c.handshake.ServerInfo, Instructions: c.handshake.Instructions,
		TTLMs: c.hints.ttlMs, Scope: c.hints.scope, More: c.handshake.More, ListMore: c.more, Tools: make([]json.RawMessage, len(raws)),
	}
	for i, raw := range raws {
		stored.Tools[i] = raw
	}
	b, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	return writeState(s.file(who, p), b)
}

// drop forgets what is stored for p: after a 401 or 403 that stayed one.
func (s *shelf) drop(who string, p *profile) {
	if s.dir != "" {
		os.Remove(s.file(who, p))
	}
}

// readHints reads the cache hints of one page.
func readHints(m *jsonrpc.Message) cacheHints {
	ttl, _ := jsonrpc.Integer(m.Field(jsonrpc.TTLMs))
	scope, _ := jsonrpc.String(m.Field(jsonrpc.CacheScope))
	return cacheHints{max(0, ttl), scope}
}

// narrow combines the hints of two pages: the shorter time, and public only if
// both are.
func (h cacheHints) narrow(other cacheHints) cacheHints {
	out := cacheHints{min(h.ttlMs, other.ttlMs), h.scope}
	if other.scope != "public" {
		out.scope = "private"
	}
	return out
}
