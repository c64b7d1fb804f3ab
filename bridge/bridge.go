package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
	"github.com/mcpbridge/mcpbridge/bridge/wire"
	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
	"github.com/mcpbridge/mcpbridge/retry"
)

// A Bridge carries MCP messages between one host on stdio and one upstream.
type Bridge struct {
	cfg      Config
	rules    retry.Rules
	policy   retry.Policy
	budget   *retry.Budget
	counters *retry.Counters
	patience *patience
	offers   *offers
	listens  *listens
	link     *link // nil while the configuration is broken
	host     *host
	keeper   *keeper // nil: nothing is journaled
	access   *access

	started  time.Time
	life     context.Context // ends when the bridge leaves
	end      context.CancelCauseFunc
	work     sync.WaitGroup
	dropped  atomic.Int64 // notifications that fit nobody
	hostLeft atomic.Bool  // nothing that is written now can be told
	leaving  atomic.Bool  // this process ends

	notices *lane // notifications of the host, in their order
	asking  quota // questions that the server put on no answer's stream

	desk   *desk   // questions that wait for an answer
	levels *levels // of logging, in legacy sessions of modern hosts

	mu       sync.Mutex
	active   map[int64]*exchange  // by the id that upstream knows
	parked   map[string]*exchange // that wait for the next round of a modern host
	roundKey []byte               // of the state directory, once it was read

	ownKey string // of rounds, where there is no other
}

// New makes a Bridge. It starts nothing and touches no network. Its errors say
// what in the configuration cannot work, and how to mend it.
func New(cfg Config) (*Bridge, error) {
	cfg = cfg.withDefaults()
	b := &Bridge{
		started:  time.Now(),
		cfg:      cfg,
		rules:    retry.Rules{Overrides: cfg.Classes, DistrustAnnotations: cfg.DistrustAnnotation},
		policy:   retry.Defaults(),
		budget:   &retry.Budget{},
		counters: &retry.Counters{},
		patience: newPatience(cfg.StateDir),
		active:   map[int64]*exchange{},
		parked:   map[string]*exchange{},
		ownKey:   rand.Text(),
		desk:     newDesk(),
		levels:   newLevels(),
	}
	b.notices = newLane(1, maxNotices, func(n int64) {
		b.cfg.Log.Warn("the server takes the host's notifications too slowly: some were dropped", "dropped", n)
	})
	b.policy.Retries = cfg.Retries
	b.life, b.end = context.WithCancelCause(context.Background())
	b.access = newAccess(&b.cfg)
	b.keeper = newKeeper(b)
	b.offers = newOffers(b)
	b.listens = newListens(b)
	if cfg.Broken != nil {
		return b, nil
	}
	if cfg.URL == nil {
		return nil, errors.New("no URL to bridge to")
	}
	if cfg.Transport == TransportSSE && cfg.Protocol == EraModern {
		return nil, errors.New("--transport sse goes with revisions up to 2025-11-25 only: leave out --protocol modern")
	}
	e, err := newEndpoint(&b.cfg)
	if err != nil {
		return nil, err
	}
	b.access = e.access
	b.access.onSignIn = b.offers.signedIn
	b.link = &link{cfg: &b.cfg, endpoint: e, life: b.life, feed: b, eras: newEraCache(cfg.StateDir, cfg.URL.String())}
	return b, nil
}

// How long leaving may take.
const (
	goodbye     = 250 * time.Millisecond // for DELETE of sessions, after the end of input
	quickEnd    = 100 * time.Millisecond // the same, after a signal
	leaveLimit  = 400 * time.Millisecond // for all of it, what is stuck included
	drainSlack  = 300 * time.Millisecond // beyond --drain, to write what is answered
	parentCheck = time.Second
	lineSilence = 5 * time.Second // no line for so long, and another parent: the host is gone
)

// maxNotices bounds the notifications of the host that wait to be sent.
const maxNotices = 256

// Run serves the host until it is gone: its end of stdin, a failed write to
// stdout, a signal (the end of ctx), or its process that vanished. It returns
// an error only where stdin or stdout could not be used at all.
func (b *Bridge) Run(ctx context.Context, stdin io.Reader, stdout *os.File) error {
	out := stdio.NewWriter(stdout, stdio.WriterOptions{
		LineLimit: int(b.cfg.HostLineLimit),
		Oversize: func(size int) {
			b.cfg.Log.Warn("a notification was dropped: it is longer than the host can read", "bytes", size, "--host-line-limit", b.cfg.HostLineLimit)
		},
	})
	b.host = newHost(b, out)
	writing, stopWriting := context.WithCancel(context.Background())
	b.work.Go(func() { out.Run(writing) })
	if b.link != nil {
		b.work.Go(func() { b.listens.run(b.life) })
		b.work.Go(func() { (&wire.SleepWatch{}).Run(b.life, b.woke) })
	}
	lines := newLineWatch(b.keeper)
	eof := make(chan error, 1)
	go func() { eof <- b.readHost(stdin, lines) }() // parked on stdin: Run does not wait for it

	left := b.untilHostIsGone(ctx, eof, out, lines)
	b.linger(out)
	inTime := b.leave(left, out)
	stopWriting()
	if inTime {
		b.work.Wait()
	}
	return nil
}

// linger stays for deliveries of jobs whose outcome is open, where the host is
// not the one that would have to wait for them: design-jobs, section 4.
func (b *Bridge) linger(out *stdio.Writer) {
	b.noteHostLeft("host gone")
	if b.cfg.Linger <= 0 || b.cfg.LetGo == nil || !b.keeper.open() {
		return
	}
	b.host.detach()
	flush, cancel := context.WithTimeout(context.Background(), quickEnd)
	out.Flush(flush)
	cancel()
	b.cfg.LetGo()
	limit := time.NewTimer(b.cfg.Linger)
	defer limit.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for b.keeper.open() {
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-b.cfg.End:
			return
		}
	}
}

// noteHostLeft remembers that nothing that is written now can be told.
func (b *Bridge) noteHostLeft(why string) {
	b.keeper.hostLeft(why)
	b.hostLeft.Store(true)
}

// lineWatch knows when the last line came: a host that sends one has read what
// was written to it before.
type lineWatch struct {
	last   atomic.Int64
	keeper *keeper
}

func newLineWatch(k *keeper) *lineWatch {
	w := &lineWatch{keeper: k}
	w.last.Store(time.Now().UnixNano())
	return w
}

func (w *lineWatch) came() {
	w.last.Store(time.Now().UnixNano())
	w.keeper.hostLives()
}
func (w *lineWatch) silent() time.Duration { return time.Since(time.Unix(0, w.last.Load())) }

// readHost hands every line to the host until stdin ends.
func (b *Bridge) readHost(stdin io.Reader, lines *lineWatch) error {
	r := stdio.NewReader(stdin, int(b.cfg.MaxMessage))
	for {
		line, err := r.Next()
		if err == nil {
			lines.came() // the end of its output is no sign of life
		}
		var tooLong *stdio.LineTooLongError
		switch {
		case errors.As(err, &tooLong):
			b.host.tooLong(tooLong)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			b.host.accept(line)
		}
	}
}

// untilHostIsGone waits for the end of the host and says how it left.
func (b *Bridge) untilHostIsGone(ctx context.Context, eof <-chan error, out *stdio.Writer, lines *lineWatch) *ending {
	parentGone := b.cfg.ParentGone
	if parentGone == nil {
		parentGone = stdio.CurrentParent().Gone
	}
	tick := time.NewTicker(parentCheck)
	defer tick.Stop()
	for {
		select {
		case err := <-eof:
			if err != nil {
				return hostGone("stdin could not be read: " + err.Error())
			}
			b.noteHostLeft("host closed its output")
			return b.drained(ctx, out)
		case <-out.Done():
			return hostGone("stdout could not be written")
		case <-ctx.Done():
			return hostGone("a signal asked to leave")
		case <-tick.C:
			if parentGone() && lines.silent() > lineSilence {
				return hostGone("the host's process is gone")
			}
		}
	}
}

// drained lets what is about to end be answered after the end of stdin.
func (b *Bridge) drained(ctx context.Context, out *stdio.Writer) *ending {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Drain)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !b.host.idle() {
		select {
		case <-tick.C:
		case <-out.Done():
			return hostGone("stdout could not be written")
		case <-ctx.Done():
			if n := b.host.waiting(); n > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				b.cfg.Log.Warn("the input ended, and not all that was asked had its answer by then; --drain says how long to wait",
					"unanswered", n, "--drain", b.cfg.Drain)
			}
			return hostGone("the host closed stdin")
		}
	}
	flush, stop := context.WithTimeout(context.WithoutCancel(ctx), drainSlack)
	defer stop()
	out.Flush(flush)
	return hostGone("the host closed stdin")
}

// leave ends everything in bounded time, and reports whether all of it ended.
func (b *Bridge) leave(how *ending, out *stdio.Writer) bool {
	b.leaving.Store(true)
	jobs := b.keeper.open() // whose sessions must not be ended
	b.host.leave(how)
	b.notices.close()
	limit := goodbye
	if how.why == "a signal asked to leave" {
		limit = quickEnd
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	flushed := make(chan struct{})
	b.work.Go(func() { defer close(flushed); out.Flush(ctx) })
	b.end(how)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if b.link != nil {
			b.link.close(ctx, jobs)
		}
		b.offers.close()
		b.notices.wait()
		b.host.work.Wait()
		<-flushed
	}()
	select {
	case <-ended:
	case <-time.After(leaveLimit): // a stuck lock or disk: what is open is found lost
		return false
	}
	if b.keeper != nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		b.keeper.journal.Flush(ctx) // notes; a lost one costs at most an answer given twice
	}
	return true
}

// woke is called after the machine slept: connections are dead, though nobody
// has said so yet.
func (b *Bridge) woke() {
	b.link.endpoint.wire.DropIdle()
	b.link.endpoint.sleepers.woke()
	now := time.Now()
	for _, x := range b.underWay() {
		x.mu.Lock()
		c := x.clock
		x.mu.Unlock()
		if c != nil {
			c.woke(now)
		}
	}
}

// underWay lists the exchanges that a delivery or a job keeps open.
func (b *Bridge) underWay() []*exchange {
	list := b.keeper.working()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.active {
		list = append(list, x)
	}
	return list
}

// track and untrack let messages that name our id find the exchange.
func (b *Bridge) track(x *exchange, id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[id] = x
}

func (b *Bridge) untrack(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.active, id)
}

// forwardNotification sends a notification of the host upstream, between peers
// of the same era only, one after the other.
func (b *Bridge) forwardNotification(p *profile, m *jsonrpc.Message) {
	if b.link == nil {
		return
	}
	up := b.link.known()
	if up == nil || up.era() != p.era {
		b.dropped.Add(1)
		return
	}
	if !b.holds(len(m.Raw)) {
		b.dropped.Add(1)
		b.cfg.Log.Warn("a notification of the host was dropped: --max-memory is in use", "method", m.Method, "bytes", len(m.Raw))
		return
	}
	sent := b.notices.do(func() {
		defer b.lets(len(m.Raw))
		ctx, cancel := context.WithTimeout(b.life, noticeTimeout)
		defer cancel()
		if err := up.notify(ctx, p, m); err != nil {
			b.cfg.Log.Warn("a notification of the host was not taken", "error", err)
		}
	})
	if !sent {
		b.lets(len(m.Raw))
		b.dropped.Add(1)
	}
}

// The bridge as a feed: what the upstream says outside the answer to a request.

// notification takes a notice of the server.
func (b *Bridge) notification(m *jsonrpc.Message) {
	switch m.Method {
	case "notifications/tools/list_changed":
		if !b.offers.changedUpstream(m) {
			b.announce(m.Method, m)
		}
	case "notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/resources/updated":
		b.announce(m.Method, m)
	case "notifications/progress":
		if id, ok := jsonrpc.Integer(m.Field(jsonrpc.ProgressToken)); ok {
			if x := b.exchangeOf(id); x != nil {
				x.passProgress(m)
			}
		}
	case "notifications/message":
		b.passLog(m)
	case "notifications/cancelled":
		b.withdrawn(m)
	default:
		b.passUnknown(m)
	}
}

// passUnknown passes a notification that the bridge does not know to a host of
// the server's era: to a legacy one as it is, to a modern one on its listens.
func (b *Bridge) passUnknown(m *jsonrpc.Message) {
	up := b.link.known()
	switch {
	case up != nil && up.era() == legacyEra:
		b.host.tell(m.Raw)
	case up != nil && b.listens.passUnknown(m):
	default:
		b.dropped.Add(1)
	}
}

func (b *Bridge) exchangeOf(id int64) *exchange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.active[id]
}

// request takes a question of the server on its GET stream: a legacy host may
// be asked there, as its era allows.
func (b *Bridge) request(m *jsonrpc.Message, respond func(result, rpcError []byte)) {
	if respond == nil {
		return
	}
	b.host.mu.Lock()
	p := b.host.handshake
	b.host.mu.Unlock()
	if p == nil {
		p = &profile{era: modernEra}
	}
	b.answerQuestion(b.life, nil, &b.asking, p, m, respond)
}

// connected is told about each new connection.
func (b *Bridge) connected(p *profile, h handshake, again bool) {
	b.offers.connected(p, h, again)
	b.listens.changed()
	if again {
		b.gap(p)
		return
	}
	b.work.Go(func() { b.catchUp(p) })
}

// catchUp asks a new legacy session for what hosts asked for before there was
// one: the log level, and updates of resources.
func (b *Bridge) catchUp(p *profile) {
	ctx, cancel := context.WithTimeout(b.life, noticeTimeout)
	defer cancel()
	// The session stands, but who found it may not have said so yet.
	if up, failed := b.link.ready(ctx, p); failed != nil || up.era() != legacyEra {
		return
	}
	b.host.mu.Lock()
	own, level := b.host.handshake, b.host.level
	b.host.mu.Unlock()
	if own != nil && own.key == p.key && level != "" {
		b.ask(p, "logging/setLevel", concat(`{"level":`, quote(level), `}`))
	}
	for _, uri := range b.listens.wantedBy(p) {
		b.ask(p, "resources/subscribe", concat(`{"uri":`, quote(uri), `}`))
	}
}

// following reports whether anybody waits for notices of the server. A legacy
// host hears of lists without asking; it looks again when it is next used.
func (b *Bridge) following() bool { return b.listens.following() }

// gap says that notices may have been lost: whoever listens looks again.
func (b *Bridge) gap(*profile) {
	b.offers.lookAgain()
	for _, method := range []string{"notifications/prompts/list_changed", "notifications/resources/list_changed"} {
		b.announce(method, nil)
	}
	for _, uri := range b.listens.subscribed() {
		b.announceURI(uri)
	}
}

// announce tells the host of a change: a legacy host bare, if its server
// declared that it says so, a modern one on the listens that asked for it. m is
// what the server said, nil if it is the bridge that says so: between peers of
// one era it is passed on.
func (b *Bridge) announce(method string, m *jsonrpc.Message) {
	var uri string
	if method == "notifications/resources/updated" {
		if uri, _ = jsonrpc.String(m.Field(jsonrpc.URI)); uri == "" {
			return
		}
	}
	b.tellOf(method, uri, m)
}

func (b *Bridge) announceURI(uri string) { b.tellOf("notifications/resources/updated", uri, nil) }

func (b *Bridge) tellOf(method, uri string, m *jsonrpc.Message) {
	var legacy, modern *jsonrpc.Message
	if up := b.link.known(); up != nil && m != nil {
		switch up.era() {
		case legacyEra:
			legacy = m
		case modernEra:
			modern = m
		}
	}
	if uri != "" || b.toldTo(method) {
		b.host.tell(bareNotice(method, uri, legacy))
	}
	b.listens.publish(method, uri, modern)
}

// bareNotice is m, if there is one, else a notice that says no more than it must.
func bareNotice(method, uri string, m *jsonrpc.Message) []byte {
	switch {
	case m != nil:
		return m.Raw
	case uri != "":
		return concat(`{"jsonrpc":"2.0","method":`, quote(method), `,"params":{"uri":`, quote(uri), `}}`)
	}
	return concat(`{"jsonrpc":"2.0","method":`, quote(method), `}`)
}

// toldTo reports whether a legacy host was told that such a notice may come.
func (b *Bridge) toldTo(method string) bool {
	capability := "resources"
	switch method {
	case "notifications/tools/list_changed":
		return true // the bridge declares it always
	case "notifications/prompts/list_changed":
		capability = "prompts"
	}
	b.host.mu.Lock()
	p := b.host.handshake
	b.host.mu.Unlock()
	if p == nil {
		return false
	}
	h := b.offers.knownHandshake(p)
	if h == nil {
		return false
	}
	c := jsonrpc.Get(h.Capabilities, capability)
	return len(c) > 0 && c[0] == '{' && truthy(jsonrpc.Get(c, "listChanged"))
}
