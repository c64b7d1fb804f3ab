package bridgetest

import (
	"encoding/json"
	"maps"
	"slices"
)

// A listen is one subscriptions/listen stream (MCP 2026-07-28, subscriptions).
type listen struct {
	id     json.RawMessage
	filter filter
	out    *stream
}

type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`
}

func (f filter) hasTask(id string) bool { return slices.Contains(f.TaskIDs, id) }

// wants reports whether a notification was asked for.
func (f filter) wants(method string, params member) bool {
	switch method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case "notifications/resources/updated":
		return slices.Contains(f.URIs, params.string("uri"))
	}
	return false
}

// listen serves subscriptions/listen: the acknowledgment first, then what was
// asked for, until the client leaves or the upstream ends the stream.
func (d *delivery) listen(c *Call) {
	defer c.cancel(nil)
	l := &listen{id: c.id, out: c.out}
	l.out.once = true
	if err := json.Unmarshal(c.params.fields["notifications"], &l.filter); err != nil {
		e := malformedMeta("notifications is no filter")
		d.refuse(e.status, e)
		return
	}
	if e := c.checkTaskIDs(&l.filter); e != nil {
		d.refuse(e.status, e)
		return
	}
	l.send("notifications/subscriptions/acknowledged", object{"notifications": l.filter})
	d.up.state.listening(l, true)
	defer d.up.state.listening(l, false)
	stop := make(chan struct{})
	defer close(stop)
	d.up.spawn(func() {
		select {
		case <-c.ctx.Done():
			l.out.end()
		case <-stop:
		}
	})
	d.held(l.out, 0, false)
}

// checkTaskIDs leaves the tasks that the upstream knows.
func (c *Call) checkTaskIDs(f *filter) *RPCError {
	if len(f.TaskIDs) > 0 && !c.wantsTasks() {
		return asRPCError(needsTasks())
	}
	f.TaskIDs = slices.DeleteFunc(f.TaskIDs, func(id string) bool { return c.up.state.task(id) == nil })
	return nil
}

func (s *state) listening(l *listen, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.listens[l] = struct{}{}
	} else {
		delete(s.listens, l)
	}
}

// send sends a notification tagged with the id of the listen.
func (l *listen) send(method string, params object) {
	p := object{}
	maps.Copy(p, params)
	p["_meta"] = object{metaSubscription: l.id}
	l.out.push(item{data: encodeNotification(method, p), named: "message"})
}

// finish ends the stream in good order ("Graceful Closure").
func (l *listen) finish() {
	result := object{"resultType": "complete", "_meta": object{metaSubscription: l.id}}
	l.out.push(item{data: encodeResult(l.id, result), status: 200, final: true, named: "message"})
}

// Notify sends a notification to every client that can have it: legacy ones on
// their GET or HTTP+SSE stream, resources/updated only where subscribed; modern
// ones on the listens that asked for it. params may be nil.
func (u *Upstream) Notify(method string, params map[string]any) {
	p := open(encode(params))
	for _, s := range u.state.allSessions() {
		if method == "notifications/resources/updated" && !s.wants(p.string("uri")) || !s.isReady() {
			continue
		}
		s.get.push(item{data: encodeNotification(method, nilIfEmpty(params)), named: "message"})
	}
	for _, l := range u.state.allListens() {
		if l.filter.wants(method, p) {
			l.send(method, params)
		}
	}
}

func nilIfEmpty(p map[string]any) any {
	if len(p) == 0 {
		return nil
	}
	return p
}

// EndListens ends every subscriptions/listen stream in good order.
func (u *Upstream) EndListens() {
	for _, l := range u.state.allListens() {
		l.finish()
	}
}

// AskOnGET puts a question on the GET stream of every legacy session, as
// revisions up to 2025-11-25 allow. The answers show in the ledger only.
func (u *Upstream) AskOnGET(id, method string, params map[string]any) {
	for _, s := range u.state.allSessions() {
		s.get.push(item{data: encodeRequest(id, method, nilIfEmpty(params)), named: "message"})
	}
}

// ChangeTools replaces the tools and says so by notifications/tools/list_changed.
func (u *Upstream) ChangeTools(tools ...Tool) {
	u.state.mu.Lock()
	u.state.tools = normal(tools)
	u.state.mu.Unlock()
	u.Notify("notifications/tools/list_changed", nil)
}

// AddTool adds a tool, or replaces the one of its name, and says so.
func (u *Upstream) AddTool(t Tool) {
	u.state.mu.Lock()
	u.state.tools = append(slices.DeleteFunc(slices.Clone(u.state.tools), func(o Tool) bool { return o.Name == t.Name }), t.normal())
	u.state.mu.Unlock()
	u.Notify("notifications/tools/list_changed", nil)
}

// RemoveTool removes a tool and says so.
func (u *Upstream) RemoveTool(name string) {
	u.state.mu.Lock()
	u.state.tools = slices.DeleteFunc(slices.Clone(u.state.tools), func(o Tool) bool { return o.Name == name })
	u.state.mu.Unlock()
	u.Notify("notifications/tools/list_changed", nil)
}
