package bridgetest

import (
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"strings"
)

const maxControlBody = 1 << 20

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// handle routes one HTTP request.
func (u *Upstream) handle(w http.ResponseWriter, r *http.Request, replica int) {
	if !u.begin() {
		return
	}
	defer u.running.Done()
	switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
	case "/mcp":
		u.guarded(w, r, replica, u.streamable)
	case "/sse", "/messages":
		u.guarded(w, r, replica, u.httpSSE)
	case "/ledger", "/ledger/reset", "/faults", "/restart":
		u.control(w, r, path)
	default:
		u.extra(w, r, replica)
	}
}

// endpoint says whether path is an MCP endpoint of the upstream's era.
func (u *Upstream) endpoint(path string) bool {
	return strings.HasPrefix(path, "/mcp") != (u.opts.Era == SSE)
}

func (u *Upstream) guarded(w http.ResponseWriter, r *http.Request, replica int, serve func(*delivery)) {
	if !u.endpoint(r.URL.Path) {
		u.extra(w, r, replica)
		return
	}
	d := u.deliver(w, r, replica)
	defer d.finish()
	maps.Copy(w.Header(), u.opts.Header)
	if o := r.Header.Get("Origin"); o != "" && !loopbackOrigin(o) {
		d.text(http.StatusForbidden, "origin is not allowed")
		return
	}
	if u.opts.Authorize != nil && !u.opts.Authorize(w, r) {
		return
	}
	serve(d)
}

// loopbackOrigin: a server must refuse other origins, against DNS rebinding
// (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint").
func loopbackOrigin(o string) bool {
	for _, host := range []string{"//127.0.0.1", "//localhost", "//[::1]"} {
		if _, rest, ok := strings.Cut(o, host); ok && (rest == "" || rest[0] == ':') {
			return true
		}
	}
	return false
}

func (u *Upstream) extra(w http.ResponseWriter, r *http.Request, replica int) {
	if u.opts.Extra != nil {
		u.opts.Extra.ServeHTTP(w, r)
		return
	}
	d := u.deliver(w, r, replica)
	defer d.finish()
	d.text(http.StatusNotFound, "not found")
}

// control serves the ledger and takes faults from another process.
func (u *Upstream) control(w http.ResponseWriter, r *http.Request, path string) {
	if path != "/ledger" && r.Method != http.MethodPost && path != "/faults" {
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	switch {
	case path == "/ledger":
		writeJSON(w, u.ledger)
	case path == "/ledger/reset":
		u.ledger.Reset()
		w.WriteHeader(http.StatusNoContent)
	case path == "/restart":
		w.WriteHeader(http.StatusNoContent)
		u.spawn(u.Restart)
	case r.Method == http.MethodPost:
		u.postFaults(w, r)
	default:
		writeJSON(w, u.faultTexts())
	}
}

func (u *Upstream) faultTexts() []string {
	out := []string{}
	for _, f := range u.faults.list() {
		out = append(out, f.String())
	}
	return out
}

// postFaults takes a JSON array of faults, each in text form or as an object.
func (u *Upstream) postFaults(w http.ResponseWriter, r *http.Request) {
	var faults []Fault
	body := http.MaxBytesReader(w, r.Body, maxControlBody)
	err := json.NewDecoder(body).Decode(&faults)
	if err == nil {
		err = u.SetFaults(faults...)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	_ = e.Encode(v) // the client may have left
}
