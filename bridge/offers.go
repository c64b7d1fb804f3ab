package bridge

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// offers keeps what the upstream offers, for each profile: it answers from
// what it has, fetches in the background, and tells the host when a list that
// it has seen is no longer true.
type offers struct {
	bridge *Bridge
	shelf  *shelf
	box    *toolbox
	log    *slog.Logger
	work   sync.WaitGroup

	mu     sync.Mutex
	notice *jsonrpc.Message  // the server said that its tools changed, and the host was not told yet
	who    string            // the account whose offers these are
	all    map[string]*offer // by profile version and key
	turn   int64             // counts uses of offers
	closed bool

	unread int    // how often in a row a list of tools could not be read
	why    string // what was wrong with it the last time
}

// maxProfiles bounds the profiles whose offers are kept at hand: a modern host
// may declare other capabilities with each request. What was not used for longest
// is forgotten; its catalogue stays on disk.
const maxProfiles = 16

// An offer is the state of one profile.
type offer struct {
	profile   *profile
	catalogue *catalogue
	handshake *handshake
	told      *catalogue // what the host was last told
	toldNone  bool       // the host was told of the bridge's own tools only
	gotNone   bool       // the last list that the host asked for was that
	fetching  bool
	again     bool          // fetch once more when the fetch under way is done
	noticed   bool          // the server said that the list changed, and nobody has looked since
	looking   bool          // the fetch under way is for such a notice
	unfounded int           // how often it said so in a row, and the list was the same
	changed   chan struct{} // closed and replaced with every change
	loaded    bool
	used      int64         // the turn in which it was asked for last
	gone      bool          // forgotten: another may have its place
	hurry     chan struct{} // somebody wants the list: no more pause before the next try
	refused   bool          // the last try met a refusal of the credentials
}

func newOffers(b *Bridge) *offers {
	return &offers{
		bridge: b, log: b.cfg.Log,
		shelf: &shelf{dir: b.cfg.StateDir, url: urlOf(&b.cfg), now: time.Now},
		box:   &toolbox{rules: b.rules, keyed: b.keyed, ignore: b.cfg.IgnoreTools, only: b.cfg.OnlyTools, log: b.cfg.Log},
		all:   map[string]*offer{},
	}
}

func urlOf(cfg *Config) string {
	if cfg.URL == nil {
		return ""
	}
	return cfg.URL.String()
}

// offer returns the state for p, reading the stored catalogue the first time;
// o.mu is held.
func (o *offers) offer(p *profile) *offer {
	if o.who == "" {
		o.who = o.bridge.access.account()
	}
	key := p.version + " " + p.key
	f := o.all[key]
	if f == nil {
		o.makeRoom()
		f = &offer{profile: p, changed: make(chan struct{}), hurry: make(chan struct{}, 1)}
		o.all[key] = f
	}
	o.turn++
	f.used = o.turn
	if !f.loaded {
		f.loaded = true
		if c := o.shelf.load(o.who, p, o.box); c != nil {
			f.catalogue, f.handshake = c, &c.handshake
		}
	}
	return f
}

// makeRoom forgets the offer that was not used for longest, where there are too
// many for one more; o.mu is held.
func (o *offers) makeRoom() {
	if len(o.all) < maxProfiles {
		return
	}
	var oldest string
	for key, f := range o.all {
		if oldest == "" || f.used < o.all[oldest].used {
			oldest = key
		}
	}
	f := o.all[oldest]
	delete(o.all, oldest)
	f.gone = true
	f.announce()
	f.wanted()
}

// wanted cuts a pause between two tries short.
func (f *offer) wanted() {
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// knownHandshake is the handshake for p if it is known, else nil.
func (o *offers) knownHandshake(p *profile) *handshake {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.offer(p).handshake
}

// handshake waits for the handshake of p, at most for the time given.
func (o *offers) handshake(ctx context.Context, p *profile, limit time.Duration) *handshake {
	var h *handshake
	o.await(ctx, p, limit, func(f *offer) bool { h = f.handshake; return h != nil })
	return h
}

// catalogue waits for the catalogue of p, at most for the time given, and
// remembers what the host is about to be told.
func (o *offers) catalogue(ctx context.Context, p *profile, limit time.Duration) *catalogue {
	var c *catalogue
	o.await(ctx, p, limit, func(f *offer) bool { c = f.catalogue; return c != nil })
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.offer(p)
	if f.catalogue != nil {
		c = f.catalogue
	}
	f.told, f.toldNone, f.gotNone = c, c == nil, c == nil
	if c != nil && o.mayBeStale(f) {
		o.beginSoon(f)
	}
	return c
}

// mayBeStale reports whether a list that is being served should be looked at
// again: it is from disk, from a server that does not say when it changes, or
// from a modern one, which says so only while somebody listens.
func (o *offers) mayBeStale(f *offer) bool {
	c := f.catalogue
	if !c.fresh {
		return true
	}
	announces := truthy(jsonrpc.Get(jsonrpc.Get(objectOr(c.handshake.Capabilities, "{}"), "tools"), "listChanged"))
	age := time.Since(c.fetched)
	return (!announces || c.era == modernEra) && age > max(time.Second, time.Duration(c.hints.ttlMs)*time.Millisecond)
}

// await waits until enough says so, connecting in the meantime.
func (o *offers) await(ctx context.Context, p *profile, limit time.Duration, enough func(*offer) bool) {
	if o.bridge.cfg.Broken != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		o.mu.Lock()
		f := o.offer(p)
		if enough(f) {
			o.mu.Unlock()
			return
		}
		o.begin(f)
		if f.refused { // time does not cure that; who signs in is told of the list then
			o.mu.Unlock()
			return
		}
		changed := f.changed
		o.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// refresh fetches the catalogue of f in the background, and once more if a
// fetch is under way that may have missed what the caller knows; o.mu is held.
func (o *offers) refresh(f *offer) {
	f.again = f.fetching
	o.begin(f)
}

// beginSoon begins, but not before the process is a second old: hosts start
// copies of us and kill them, and what is known was answered already.
func (o *offers) beginSoon(f *offer) {
	young := firstSecond - time.Since(o.bridge.started)
	if young <= 0 {
		o.begin(f)
		return
	}
	time.AfterFunc(young, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.begin(f)
	})
}

// firstSecond is how long nothing is begun that no request needs.
const firstSecond = time.Second

// begin fetches the catalogue of f in the background; o.mu is held.
func (o *offers) begin(f *offer) {
	if f.fetching {
		f.wanted()
	}
	if f.fetching || o.closed {
		return
	}
	f.fetching = true
	o.work.Go(func() { o.keepFetching(f) })
}

// whileSignedOut is the least pause between two tries without a sign-in, which
// ends the pause.
const whileSignedOut = 15 * time.Second

// Longest pauses between two tries: for a host that was told, or will be, of
// nothing but the bridge's own tools, and for one that has a list to go on with.
const (
	maxListPause  = time.Minute
	maxStalePause = 5 * time.Minute
)

// keepFetching tries until the catalogue is the present one, with growing
// pauses, which end when somebody wants the list.
func (o *offers) keepFetching(f *offer) {
	pause := 250 * time.Millisecond
	ctx := o.bridge.life
	for ctx.Err() == nil {
		signedIn := o.bridge.access.changes()
		if !o.pauseForNotice(ctx, f) {
			break
		}
		o.sameAccount()
		up, failed := o.bridge.link.ready(ctx, f.profile)
		if failed == nil {
			o.learn(f, o.bridge.handshakeOf(up, f.profile))
		}
		ok := failed == nil && o.fetch(ctx, up, f.profile) != nil
		if failed != nil {
			o.failed(f, failed)
		}
		o.mu.Lock()
		done := ok && !f.again || o.closed || f.gone
		longest := maxListPause
		if f.catalogue != nil {
			longest = maxStalePause
		}
		f.again = false
		if done {
			f.fetching = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if !ok {
			if o.bridge.access.needsSignIn() {
				pause = max(pause, whileSignedOut)
			}
			if !o.pause(ctx, f, signedIn, pause) {
				break
			}
			pause = min(2*pause, longest)
		}
	}
	o.mu.Lock()
	f.fetching = false
	o.mu.Unlock()
}

// pauseForNotice lets a server that says again and again that its list changed,
// and gives the same list, be asked less and less often.
func (o *offers) pauseForNotice(ctx context.Context, f *offer) bool {
	o.mu.Lock()
	var d time.Duration
	if n := f.unfounded - freeUnfounded; f.noticed && n >= 0 {
		d = min(firstPause<<n, maxListPause)
	}
	o.mu.Unlock()
	if !pauseFor(ctx, d) {
		return false
	}
	o.mu.Lock()
	f.again = false // what was said until now is what is looked at
	f.looking, f.noticed = f.looking || f.noticed, false
	o.mu.Unlock()
	return true
}

// pause waits for about d before the next try for f, less long where somebody
// wants the list and no person has to sign in first.
func (o *offers) pause(ctx context.Context, f *offer, signedIn <-chan struct{}, d time.Duration) bool {
	if o.bridge.access.needsSignIn() {
		return o.bridge.access.wait(ctx, signedIn, d)
	}
	timer := time.NewTimer(d + rand.N(d/4+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.hurry:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// fetch gathers the tools and puts the new catalogue in place.
func (o *offers) fetch(ctx context.Context, up upstream, p *profile) *catalogue {
	h := o.bridge.handshakeOf(up, p)
	if h == nil {
		return nil
	}
	who := o.sameAccount()
	var g gathered
	if len(jsonrpc.Get(h.Capabilities, "tools")) > 0 {
		var failed *reply
		if g, failed = o.bridge.link.gather(ctx, up, p, "tools/list", jsonrpc.Tools); failed != nil {
			o.failed(&offer{profile: p}, failed)
			if failed.verdict.Outcome != classify.JSONRPCError || failed.verdict.RPCError.Code != codeMethodNotFound {
				if ctx.Err() == nil && !failed.refusedAccount() {
					o.unreadable(reason(&failed.verdict))
				}
				return nil
			}
			g = gathered{hints: cacheHints{scope: "private"}}
		}
	}
	c := newCatalogue(*h, up.era(), g.items, g.hints, o.box, time.Now())
	c.fresh, c.more = true, g.more
	o.unreadable("")
	if !o.put(who, p, c, g.items) {
		return nil
	}
	return c
}

// unreadable takes note of why a list of tools could not be read; "" is that it
// could. The second time in a row it is logged: nobody else would say why a
// server that is connected shows no tools, or old ones.
func (o *offers) unreadable(why string) {
	o.mu.Lock()
	o.why, o.unread = why, o.unread+1
	if why == "" {
		o.unread = 0
	}
	tell := o.unread == 2
	o.mu.Unlock()
	if tell {
		o.log.Warn("the server's list of tools cannot be read; it is asked for again and again", "reason", why)
	}
}

// gotNone reports whether the host has the bridge's own tools only: it did not
// ask again since the server's are known, as some never do.
func (o *offers) gotNone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		if f.gotNone {
			return true
		}
	}
	return false
}

// trouble is why the list of tools could not be read the last time, "" if it
// could.
func (o *offers) trouble() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why
}

// learn notes a handshake as soon as there is one: initialize and discover
// need not wait for the list.
func (o *offers) learn(f *offer, h *handshake) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h != nil && f.handshake == nil {
		f.handshake = h
		f.announce()
	}
}

// handshakeOf is what up said of itself to p.
func (b *Bridge) handshakeOf(up upstream, p *profile) *handshake {
	if u, ok := up.(shaker); ok {
		return u.handshakeOf(p)
	}
	h := b.link.discovered()
	return &h
}

// put replaces the catalogue and tells the host if its list is not true any
// more. What was fetched for another account than the present one is not kept.
func (o *offers) put(who string, p *profile, c *catalogue, raws [][]byte) bool {
	o.mu.Lock()
	f := o.offer(p)
	if who != o.who {
		o.mu.Unlock()
		return false
	}
	old := f.catalogue
	f.catalogue, f.handshake, f.refused = c, &c.handshake, false
	tell := f.toldNone || f.told != nil && !c.sameAs(f.told)
	var said *jsonrpc.Message
	if f.looking {
		said, o.notice = o.notice, nil
		tell = tell || said != nil
		f.lookedAfterNotice(old, c)
	}
	f.announce()
	o.mu.Unlock()
	if old == nil || !old.sameAs(c) || !old.fresh {
		if err := o.shelf.save(who, p, c, raws); err != nil {
			o.log.Warn("the catalogue could not be stored", "error", err)
		}
	}
	if old != nil {
		for _, name := range c.changed(old) {
			o.log.Warn("the server changed the description or schema of a tool", "tool", name)
		}
	}
	if tell {
		o.tellChanged(f, c, said)
	}
	return true
}

// lookedAfterNotice notes whether a notice of the server was founded.
func (f *offer) lookedAfterNotice(old, now *catalogue) {
	f.looking = false
	if old == nil || !now.sameAs(old) {
		f.unfounded = 0
		return
	}
	f.unfounded = min(f.unfounded+1, maxUnfounded)
}

// Unfounded notices in a row: how many cost no pause, and for how many it grows.
const (
	freeUnfounded = 3
	maxUnfounded  = freeUnfounded + 6
)

// tellChanged sends list_changed once for each list the host was told, in the
// server's words if it said so.
func (o *offers) tellChanged(f *offer, c *catalogue, said *jsonrpc.Message) {
	o.mu.Lock()
	f.told, f.toldNone = c, false
	o.mu.Unlock()
	o.bridge.announce("notifications/tools/list_changed", said)
}

// announce wakes all that wait; o.mu is held.
func (f *offer) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// connected notes a handshake and looks at the tools of the new connection.
func (o *offers) connected(p *profile, h handshake, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.offer(p)
	f.handshake = &h
	f.announce()
	if again || f.catalogue != nil && !f.catalogue.fresh {
		o.refresh(f)
	}
}

// lookAgain refetches every catalogue that was fetched once: it may be another
// one now.
func (o *offers) lookAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		if f.catalogue != nil {
			o.refresh(f)
		}
	}
}

// changedUpstream takes the server's word that its tools are different now. The
// host is told when the new list is here, also if it is the old one: that is
// between the two. It reports whether there is a list to look at again.
func (o *offers) changedUpstream(m *jsonrpc.Message) bool {
	said := keptNotice(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notice = nil
	for _, f := range o.all {
		if f.catalogue == nil && !f.fetching { // what is under way may be older than the change
			continue
		}
		if f.catalogue == nil || time.Since(f.catalogue.fetched) > maxListPause {
			f.unfounded = 0
		}
		f.noticed, o.notice = true, said
		o.refresh(f)
	}
	return o.notice != nil
}

// keptNotice is a notification for longer than its bytes are lent.
func keptNotice(m *jsonrpc.Message) *jsonrpc.Message {
	kept := *m
	kept.Raw = bytes.Clone(m.Raw)
	return &kept
}

// hostInitialized is called when a legacy host has finished its handshake; the
// first list it asks for is answered soon if the fetch begins now.
func (o *offers) hostInitialized() {
	if o.bridge.cfg.Broken != nil {
		return
	}
	h := o.bridge.host
	h.mu.Lock()
	p := h.handshake
	h.mu.Unlock()
	if p == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.offer(p); f.catalogue == nil {
		o.begin(f)
	}
}

// refusedCall takes a call of the host whose credentials were refused to the
// end. A 403 is about that call and says nothing of the list.
func (o *offers) refusedCall(p *profile, r *reply) {
	if r.capture.Status == http.StatusUnauthorized {
		o.failed(&offer{profile: p}, r)
	}
}

// failed drops what is known where it may no longer be shown: a list fetched
// with credentials that do not count any more, and that signing in again would
// not restore. Whoever waits for a list learns that it will not come by itself.
func (o *offers) failed(f *offer, r *reply) {
	if !r.refusedAccount() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.offer(f.profile)
	g.refused = true
	if r.decision.Action != auth.SignIn {
		o.shelf.drop(o.who, f.profile)
		g.catalogue = nil
	}
	g.announce()
}

// sameAccount returns the present account. Where it is another one than before,
// all that was offered to the other is forgotten.
func (o *offers) sameAccount() string {
	who := o.bridge.access.account()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.who == "" || o.who == who {
		o.who = who
		return who
	}
	o.who = who
	for _, f := range o.all {
		f.catalogue, f.loaded, f.refused = nil, false, false
	}
	return who
}

// signedIn looks again at all that was offered: somebody has signed in.
func (o *offers) signedIn() {
	o.sameAccount()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		f.refused = false
		o.begin(f)
	}
}

// tool is the tool that the host calls by name, if the catalogue is known.
func (o *offers) tool(p *profile, name string) *tool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.offer(p).catalogue; c != nil {
		return c.byListed[name]
	}
	return nil
}

func (o *offers) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.work.Wait()
}
