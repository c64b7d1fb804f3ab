package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/jobs"
)

// listens serves the subscriptions of modern hosts and keeps the one that the
// bridge itself holds at a modern upstream: MCP 2026-07-28, subscriptions. All
// that hosts want is asked for once, upstream, in one listen; a drop upstream
// never ends a host's listen.
type listens struct {
	bridge *Bridge
	wake   chan struct{} // the wanted filter may have changed

	mu    sync.Mutex
	open  map[*listen]bool
	uris  map[string]int // resources that a legacy host subscribed to
	asked int64          // how often what is wanted may have changed
	met   int64          // asked, when upstream was last told of all that is wanted
	moved chan struct{}  // closed and replaced with every change of met
	room  quota          // of listens
}

// Bounds of what one host may listen to.
const (
	maxListens = 64   // subscriptions/listen open at once
	maxURIs    = 1024 // resources of one of them, or subscribed by a legacy host
)

// A listen is one subscriptions/listen of a modern host.
type listen struct {
	x      *exchange
	filter filter

	acknowledged bool     // this and the next are guarded by the exchange
	early        [][]byte // notices that came before
}

// maxEarly bounds the notices that wait for an acknowledgment.
const maxEarly = 64

// A filter says which notices are wanted.
type filter struct {
	tools, prompts, resources bool
	uris                      map[string]bool
	tasks                     []jobs.Handle     // answered from the journal, never asked upstream
	more                      map[string][]byte // members of which the bridge knows nothing, as JSON
}

func newListens(b *Bridge) *listens {
	return &listens{bridge: b, wake: make(chan struct{}, 1), open: map[*listen]bool{}, uris: map[string]int{}, moved: make(chan struct{})}
}

// readFilter reads params.notifications.
func readFilter(value []byte) (filter, error) {
	f := filter{uris: map[string]bool{}}
	if len(value) == 0 || value[0] != '{' {
		return f, errors.New("params.notifications must be an object")
	}
	f.tools = string(jsonrpc.Get(value, "toolsListChanged")) == "true"
	f.prompts = string(jsonrpc.Get(value, "promptsListChanged")) == "true"
	f.resources = string(jsonrpc.Get(value, "resourcesListChanged")) == "true"
	if list := jsonrpc.Get(value, "resourceSubscriptions"); len(list) > 0 && list[0] == '[' {
		items, err := jsonrpc.Elements(list)
		if err != nil {
			return f, err
		}
		for _, item := range items {
			if uri, ok := jsonrpc.String(item); ok {
				f.uris[uri] = true
			}
		}
		if len(f.uris) > maxURIs {
			return f, fmt.Errorf("%d resources are too many: one subscription takes %d", len(f.uris), maxURIs)
		}
	}
	f.tasks = readTaskIDs(jsonrpc.Get(value, "taskIds"))
	for name, wanted := range jsonrpc.Members(value) {
		if !slices.Contains(knownFilters(), name) && len(f.more) < maxUnknownFilters {
			f.want(name, wanted)
		}
	}
	return f, nil
}

// knownFilters are the members of a notification filter that the bridge reads.
func knownFilters() []string {
	return []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"}
}

// maxUnknownFilters bounds the members of one filter that the bridge passes on
// unread.
const maxUnknownFilters = 64

// want adds a member that the bridge does not know. Where two listens want
// different things under one name, upstream is asked for the elements of both
// lists, or else for one of the two, always the same.
func (f *filter) want(name string, value []byte) {
	if f.more == nil {
		f.more = map[string][]byte{}
	}
	f.more[name] = bothWanted(f.more[name], bytes.Clone(value))
}

func bothWanted(one, other []byte) []byte {
	switch {
	case len(one) == 0 || bytes.Equal(one, other):
		return other
	case one[0] == '[' && other[0] == '[':
		all, err := jsonrpc.Elements(one)
		also, err2 := jsonrpc.Elements(other)
		if err != nil || err2 != nil {
			return other
		}
		all = append(slices.Clone(all), also...)
		slices.SortFunc(all, bytes.Compare)
		return concat("[", bytes.Join(slices.CompactFunc(all, bytes.Equal), []byte(",")), "]")
	case bytes.Compare(one, other) > 0: // true, not false
		return one
	}
	return other
}

// readTaskIDs reads the handles in a list of task ids.
func readTaskIDs(list []byte) []jobs.Handle {
	var handles []jobs.Handle
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	items, err := jsonrpc.Elements(list)
	if err != nil {
		return nil
	}
	for _, item := range items[:min(len(items), maxTaskIDs)] {
		text, _ := jsonrpc.String(item)
		if h, err := jobs.ParseHandle(text); err == nil {
			handles = append(handles, h)
		}
	}
	return handles
}

// maxTaskIDs bounds the tasks that one listen follows.
const maxTaskIDs = 64

// json writes f as a notification filter.
func (f filter) json() []byte {
	out := []byte{'{'}
	for _, kind := range []struct {
		name string
		on   bool
	}{{"toolsListChanged", f.tools}, {"promptsListChanged", f.prompts}, {"resourcesListChanged", f.resources}} {
		if kind.on {
			out = appendMember(out, kind.name, []byte("true"))
		}
	}
	if len(f.tasks) > 0 {
		out = appendMember(out, "taskIds", handleList(f.tasks))
	}
	if len(f.uris) > 0 {
		list := []byte{'['}
		for i, uri := range slices.Sorted(maps.Keys(f.uris)) {
			if i > 0 {
				list = append(list, ',')
			}
			list = appendString(list, uri)
		}
		out = appendMember(out, "resourceSubscriptions", append(list, ']'))
	}
	for _, name := range slices.Sorted(maps.Keys(f.more)) {
		out = appendMember(out, name, f.more[name])
	}
	return append(out, '}')
}

func (f filter) empty() bool {
	return !f.tools && !f.prompts && !f.resources && len(f.uris) == 0 && len(f.more) == 0
}

// limit takes out of f what the upstream does not offer.
func (f filter) limit(h *handshake) filter {
	if h == nil {
		f.tasks = nil
		return f
	}
	offers := func(capability, what string) bool {
		c := jsonrpc.Get(h.Capabilities, capability)
		return len(c) > 0 && c[0] == '{' && truthy(jsonrpc.Get(c, what))
	}
	out := filter{tools: f.tools, prompts: f.prompts && offers("prompts", "listChanged"),
		resources: f.resources && offers("resources", "listChanged"), uris: map[string]bool{}}
	if offers("resources", "subscribe") {
		out.uris = f.uris
	}
	if isModern(h.Version) {
		out.more = f.more // whether it can be kept, only the server knows
	}
	return out
}

// serve holds one listen of a modern host open until the host cancels it or
// the bridge leaves. The acknowledgment comes first and names what can be kept.
func (l *listens) serve(x *exchange) {
	f, err := readFilter(x.msg.Field(jsonrpc.Notifications))
	if err != nil {
		x.reject(codeInvalidParams, "subscriptions/listen: "+err.Error(), nil)
		return
	}
	if len(f.tasks) > 0 && x.door() != newDoor {
		x.reject(codeMissingCapability, "this request does not declare the tasks extension",
			[]byte(`{"requiredCapabilities":{"extensions":{"`+tasksExtension+`":{}}}}`))
		return
	}
	if l.room.take(maxListens) > 0 {
		x.reject(codeOverloaded, fmt.Sprintf("%d subscriptions are open already: end one of them first", maxListens), nil)
		return
	}
	defer l.room.give()
	limited := f.limit(l.bridge.offers.handshake(x.ctx, x.profile, handshakeWait))
	limited.tasks = l.bridge.keeper.knownTasks(x.ctx, f.tasks)
	one := &listen{x: x, filter: limited}
	l.mu.Lock()
	l.open[one] = true
	l.mu.Unlock()
	subscribed := l.follow(one)
	one.acknowledge()
	for _, h := range one.filter.tasks {
		x.host.work.Go(func() { l.bridge.keeper.followFor(one, h) })
	}
	<-x.ctx.Done()
	l.mu.Lock()
	delete(l.open, one)
	l.mu.Unlock()
	l.changed()
	<-subscribed
	for uri := range one.filter.uris {
		if l.bridge.life.Err() == nil && !l.wants(uri) {
			l.bridge.subscribeLegacy(x, uri, false)
		}
	}
	x.answerText(resultLine(x.id, concat(`{"resultType":"complete","_meta":{"`, metaSubscriptionID, `":`, x.id, `}}`)))
}

// follow has upstream tell of what a new listen wants, and returns when it does,
// or will not for a while: what happens after an acknowledgment is to be heard of.
// The channel is closed when a legacy server was asked for each resource.
func (l *listens) follow(one *listen) (subscribed <-chan struct{}) {
	x := one.x
	ctx, cancel := context.WithTimeout(x.ctx, handshakeWait)
	defer cancel()
	asked := l.changed()
	if u, ok := l.bridge.link.known().(*legacy); ok {
		u.stir() // its GET stream may be closed
	}
	done := make(chan struct{})
	spawned := x.host.spawn(func() {
		defer close(done)
		for uri := range one.filter.uris {
			l.bridge.subscribeLegacy(x, uri, true)
		}
	})
	if !spawned {
		close(done)
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.awaitMet(ctx, asked)
	return done
}

// awaitMet waits until upstream was told of what was wanted at a time.
func (l *listens) awaitMet(ctx context.Context, asked int64) {
	for {
		l.mu.Lock()
		met, moved := l.met, l.moved
		l.mu.Unlock()
		if met >= asked {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// meets notes that upstream was told of what was wanted at a time.
func (l *listens) meets(asked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.met = asked
	close(l.moved)
	l.moved = make(chan struct{})
}

// acknowledge writes the acknowledgment, and then what came before it:
// 2026-07-28, subscriptions, has it first.
func (one *listen) acknowledge() {
	x := one.x
	line := one.line("notifications/subscriptions/acknowledged", concat(`"notifications":`, one.filter.json()))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	one.acknowledged = true
	x.host.out.Notify("", line)
	for _, early := range one.early {
		x.host.out.Notify("", early)
	}
	one.early = nil
}

// notify writes a notification of this listen, tagged with its id.
func (one *listen) notify(method string, params []byte) { one.write(one.line(method, params)) }

func (one *listen) line(method string, params []byte) []byte {
	line := concat(`{"jsonrpc":"2.0","method":`, quote(method), `,"params":{"_meta":{"`, metaSubscriptionID, `":`, one.x.id, `}`)
	if len(params) > 0 {
		line = concat(line, `,`, params)
	}
	return append(line, "}}"...)
}

// write writes a line of this listen, behind its acknowledgment.
func (one *listen) write(line []byte) {
	x := one.x
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
	case one.acknowledged:
		x.host.out.Notify("", line)
	case len(one.early) < maxEarly:
		one.early = append(one.early, line)
	}
}

// pass writes a notification of the server, of which only the tag is changed:
// it came on a listen of ours.
func (one *listen) pass(m *jsonrpc.Message) {
	edits := metaEdit(m, metaPatch{set: []member{{metaSubscriptionID, one.x.id}}})
	one.write(jsonrpc.AppendEdited(nil, m.Raw, edits...))
}

// wants reports whether a notice is one that f asks for.
func (f filter) wants(method, uri string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return f.tools
	case "notifications/prompts/list_changed":
		return f.prompts
	case "notifications/resources/list_changed":
		return f.resources
	case "notifications/resources/updated":
		return f.uris[uri]
	}
	return false
}

// publish gives a notice to every listen that asked for it: m where it comes
// from a server of the same era, else one made here.
func (l *listens) publish(method, uri string, m *jsonrpc.Message) {
	var params []byte
	if method == "notifications/resources/updated" {
		params = concat(`"uri":`, quote(uri))
	}
	for _, one := range l.who(func(f filter) bool { return f.wants(method, uri) }) {
		if m != nil {
			one.pass(m)
		} else {
			one.notify(method, params)
		}
	}
}

// passUnknown gives a notification that the bridge does not know, of a server of
// the same era, to the listens that asked for something that it does not know
// either; to all, if none did. It reports whether there was one.
func (l *listens) passUnknown(m *jsonrpc.Message) bool {
	to := l.who(func(f filter) bool { return len(f.more) > 0 })
	if len(to) == 0 {
		to = l.who(func(filter) bool { return true })
	}
	for _, one := range to {
		one.pass(m)
	}
	return len(to) > 0
}

// who lists the open listens whose filter is one of those.
func (l *listens) who(is func(filter) bool) []*listen {
	l.mu.Lock()
	defer l.mu.Unlock()
	var to []*listen
	for one := range l.open {
		if is(one.filter) {
			to = append(to, one)
		}
	}
	return to
}

// subscribe notes a legacy host's interest in one resource, or the end of it. It
// reports whether there was room for it.
func (l *listens) subscribe(uri string, on bool) bool {
	l.mu.Lock()
	fits := !on || len(l.uris) < maxURIs || l.uris[uri] > 0
	switch {
	case !on:
		delete(l.uris, uri)
	case fits:
		l.uris[uri] = 1
	}
	l.mu.Unlock()
	l.changed()
	return fits
}

func (l *listens) wants(uri string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted(false).uris[uri]
}

// subscribed lists the resources that anybody here follows.
func (l *listens) subscribed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.wanted(false).uris))
}

// wanted is all that anybody here wants to hear; l.mu is held. A legacy host
// hears of every list without asking.
func (l *listens) wanted(legacyHost bool) filter {
	f := filter{tools: legacyHost, prompts: legacyHost, resources: legacyHost, uris: map[string]bool{}}
	for one := range l.open {
		f.tools = f.tools || one.filter.tools
		f.prompts = f.prompts || one.filter.prompts
		f.resources = f.resources || one.filter.resources
		for uri := range one.filter.uris {
			f.uris[uri] = true
		}
		for name, value := range one.filter.more {
			f.want(name, value)
		}
	}
	for uri := range l.uris {
		f.uris[uri] = true
	}
	return f
}

// changed has what is wanted looked at again, and returns a number for it.
func (l *listens) changed() (asked int64) {
	l.mu.Lock()
	l.asked++
	asked = l.asked
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return asked
}

// following reports whether anybody here waits for notices.
func (l *listens) following() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) > 0 || len(l.uris) > 0
}

// run keeps one listen open at a modern upstream for all that is wanted. For a
// changed filter the new one is opened before the old one is closed.
func (l *listens) run(ctx context.Context) {
	ctx = context.WithValue(ctx, noIdleLimit{}, true)
	var current *upstreamListen
	defer func() { current.stop() }()
	var deaf upstream // has no such method, and is lived with
	lost := false     // notices, since the last listen ended
	pause := firstPause
	for {
		signedIn := l.bridge.access.changes()
		up, want, asked := l.target()
		switch {
		case up == nil || up == deaf || want.empty():
			current.stop()
			current = nil
		case current == nil || !bytes.Equal(current.filter, want.json()) || current.up != up:
			next := l.open1(ctx, up, want.json())
			current.stop()
			current = next
			if current.heard() && lost {
				lost = false
				l.bridge.gap(nil)
			}
		}
		l.meets(asked)
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-current.ended():
			lost = true
			switch {
			case current.refused:
				deaf = current.up
			case current.heard():
				pause = firstPause
			}
			l.complain(current)
			current = nil
			if !l.bridge.access.wait(ctx, signedIn, pause) {
				return
			}
			pause = min(2*pause, maxPause)
		}
	}
}

// complain says once in the log why a listen ended that never began.
func (l *listens) complain(u *upstreamListen) {
	if !u.heard() && l.bridge.life.Err() == nil {
		l.bridge.cfg.Log.Warn("the server did not acknowledge subscriptions/listen", "reason", u.why, "given up", u.refused)
	}
}

// target is where to listen, and for what, and how often that was asked before.
func (l *listens) target() (upstream, filter, int64) {
	l.mu.Lock()
	asked := l.asked
	l.mu.Unlock()
	up := l.bridge.link.known()
	if up == nil || up.era() != modernEra {
		return nil, filter{}, asked
	}
	h := l.bridge.host
	h.mu.Lock()
	legacyHost := h.handshake != nil
	h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.bridge.link.discovered()
	f := l.wanted(legacyHost).limit(&found)
	tools := jsonrpc.Get(found.Capabilities, "tools")
	f.tools = f.tools && len(tools) > 0 && truthy(jsonrpc.Get(tools, "listChanged"))
	return up, f, asked
}

// An upstreamListen is one subscriptions/listen of ours at the upstream.
type upstreamListen struct {
	up      upstream
	filter  []byte
	cancel  context.CancelFunc
	done    chan struct{}
	began   chan struct{} // closed when it is acknowledged
	refused bool          // the two below may be read after done
	why     string
}

// heard reports whether the listen was acknowledged.
func (u *upstreamListen) heard() bool {
	select {
	case <-u.began:
		return true
	default:
		return false
	}
}

func (u *upstreamListen) stop() {
	if u != nil {
		u.cancel()
		<-u.done
	}
}

func (u *upstreamListen) ended() <-chan struct{} {
	if u == nil {
		return nil
	}
	return u.done
}

// open1 opens a listen and returns when it is acknowledged or has ended.
func (l *listens) open1(ctx context.Context, up upstream, wanted []byte) *upstreamListen {
	ctx, cancel := l.bridge.link.endpoint.sleepers.untilWake(ctx)
	u := &upstreamListen{up: up, filter: wanted, cancel: cancel, done: make(chan struct{}), began: make(chan struct{})}
	raw := concat(`{"jsonrpc":"2.0","id":0,"method":"subscriptions/listen","params":{"notifications":`, wanted, `}}`)
	m, err := jsonrpc.Read(raw)
	if err != nil {
		close(u.done)
		return u
	}
	p := l.bridge.host.anyProfile().asLegacy()
	d := &delivery{own: true, msg: &m, method: m.Method, id: l.bridge.link.newID(), profile: p}
	l.bridge.work.Go(func() {
		defer close(u.done)
		defer cancel()
		r := l.bridge.link.deliverOwn(ctx, up, d, &listenSink{bridge: l.bridge, acknowledged: sync.OnceFunc(func() { close(u.began) })})
		defer r.done()
		u.why = r.verdict.Why
		u.refused = !u.heard() && r.decision.Action != auth.SignIn && (r.verdict.RPCError != nil && r.verdict.Status < 500 ||
			slices.Contains([]int{400, 404, 405, 406, 415}, r.capture.Status))
	})
	timer := time.NewTimer(pageTimeout)
	defer timer.Stop()
	select {
	case <-u.began:
	case <-u.done:
	case <-timer.C:
	}
	return u
}

// A listenSink takes what comes on our listen.
type listenSink struct {
	bridge       *Bridge
	acknowledged func()
}

func (s *listenSink) notification(m *jsonrpc.Message) {
	if m.Method == "notifications/subscriptions/acknowledged" {
		s.acknowledged()
		return
	}
	s.bridge.notification(m)
}

func (s *listenSink) request(m *jsonrpc.Message, _ func(_, _ []byte)) {
	s.bridge.cfg.Log.Warn("a request of the server on a modern stream was ignored", "method", m.Method)
}

// subscribeLegacy asks a legacy upstream for updates of one resource.
func (b *Bridge) subscribeLegacy(x *exchange, uri string, on bool) {
	up := b.link.known()
	if up == nil || up.era() != legacyEra {
		return
	}
	method := "resources/unsubscribe"
	if on {
		method = "resources/subscribe"
	}
	b.ask(x.profile, method, concat(`{"uri":`, quote(uri), `}`))
}

// ask makes a request of the bridge's own to a legacy upstream, of which only a
// failure is of interest.
func (b *Bridge) ask(p *profile, method string, params []byte) {
	up := b.link.known()
	m, err := jsonrpc.Read(concat(`{"jsonrpc":"2.0","id":0,"method":"`, method, `","params":`, params, `}`))
	if err != nil || up == nil {
		return
	}
	ctx, cancel := context.WithTimeout(b.life, noticeTimeout)
	defer cancel()
	r := b.link.deliverOwn(ctx, up, &delivery{own: true, msg: &m, method: method, id: b.link.newID(), profile: p}, deaf{})
	defer r.done()
	if r.verdict.Outcome != classify.Result {
		b.cfg.Log.Warn("the server did not take a request of the bridge", "method", method, "reason", r.verdict.Why)
	}
}

// wantedBy lists the resources whose updates hosts of a profile asked for.
func (l *listens) wantedBy(p *profile) []string {
	l.bridge.host.mu.Lock()
	own := l.bridge.host.handshake
	l.bridge.host.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	uris := map[string]bool{}
	for one := range l.open {
		if one.x.profile.key == p.key {
			maps.Copy(uris, one.filter.uris)
		}
	}
	if own != nil && own.key == p.key {
		for uri := range l.uris {
			uris[uri] = true
		}
	}
	return slices.Collect(maps.Keys(uris))
}
