package bridge

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
)

// signInLook is how often a bridge that waits for a sign-in looks whether
// another process has made it.
const signInLook = 500 * time.Millisecond

// An access is what the bridge knows of its account at the upstream: whether a
// person has to sign in, and when somebody has.
type access struct {
	credentials Credentials // nil: fixed headers, if anything
	url         *url.URL
	fixed       string // --principal where there are no credentials
	log         *slog.Logger
	onSignIn    func()

	mu      sync.Mutex
	missing bool          // a person has to sign in: the last that was heard is a refusal
	refused auth.Use      // what was presented then
	changed chan struct{} // closed and replaced when somebody has signed in
	last    string        // account that was seen last
	told    string        // page that was written to the log last
	listed  bool          // a list of tools has had a person sign in
}

func newAccess(cfg *Config) *access {
	return &access{credentials: cfg.Credentials, url: cfg.URL, fixed: cfg.Principal, log: cfg.Log, changed: make(chan struct{})}
}

// around puts the credentials around deliveries.
func (a *access) around() func(http.RoundTripper) http.RoundTripper {
	if a.credentials == nil {
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper { return presenter{a.credentials, next} }
}

// watch notes in the returned showing what a delivery under the returned
// context presents.
func (a *access) watch(ctx context.Context) (context.Context, *showing) {
	if a.credentials == nil {
		return ctx, &showing{}
	}
	s := &showing{}
	return context.WithValue(ctx, showingKey{}, s), s
}

// heard takes the head of an answer.
func (a *access) heard(r *reply, s *showing) {
	r.use = s.use
	if a.credentials == nil || r.refusedAccount() {
		return
	}
	a.credentials.Accepted(s.use)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing = false
}

// refusedAccount reports whether the answer is about credentials.
func (r *reply) refusedAccount() bool {
	return r.capture.Status == http.StatusUnauthorized || r.capture.Status == http.StatusForbidden
}

// judge decides about a refusal, and keeps the decision in r.
func (a *access) judge(ctx context.Context, r *reply) auth.Decision {
	if a.credentials == nil {
		return r.decision
	}
	r.decision = a.credentials.Challenge(ctx, r.use, r.capture.Status, r.capture.Header)
	if r.decision.Action == auth.SignIn {
		a.mu.Lock()
		a.missing, a.refused = true, r.use
		a.mu.Unlock()
	}
	return r.decision
}

// mended reports whether a request of the bridge's own, which nobody signs in
// for, makes sense once more after the answer r.
func (a *access) mended(ctx context.Context, r *reply) bool {
	return r.refusedAccount() && a.judge(ctx, r).Action == auth.Again
}

// signIn has a person sign in, or waits until somebody has.
func (a *access) signIn(ctx context.Context, show func(auth.Prompt)) error {
	err := a.credentials.SignIn(ctx, auth.SignInOptions{Show: show})
	if err == nil {
		a.signedIn()
	}
	return err
}

func (a *access) signedIn() {
	a.mu.Lock()
	a.missing = false
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	a.onSignIn()
}

// isNews reports whether the page of a sign-in was not told yet.
func (a *access) isNews(p auth.Prompt) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	news := a.told != p.URL+p.UserCode
	a.told = p.URL + p.UserCode
	return news
}

// firstList reports whether no list of tools has had a person sign in before.
func (a *access) firstList() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.listed
	a.listed = true
	return first
}

// needsSignIn reports whether a person has to sign in before anything works.
func (a *access) needsSignIn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.missing
}

// changes is closed when somebody signs in after this call.
func (a *access) changes() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// wait waits for about d, or until somebody has signed in, here or in another
// process. It reports whether ctx still lives.
func (a *access) wait(ctx context.Context, changes <-chan struct{}, d time.Duration) bool {
	if !a.needsSignIn() {
		return wait(ctx, d)
	}
	limit := time.NewTimer(d)
	defer limit.Stop()
	look := time.NewTicker(signInLook)
	defer look.Stop()
	for {
		select {
		case <-changes:
			return true
		case <-limit.C:
			return true
		case <-look.C:
			if a.presentsOther(ctx) {
				a.signedIn()
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// presentsOther reports whether a request would carry something else now than
// what was refused.
func (a *access) presentsOther(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url.String(), nil)
	if err != nil {
		return false
	}
	use, err := a.credentials.Apply(ctx, req)
	a.mu.Lock()
	defer a.mu.Unlock()
	return err == nil && use != a.refused
}

// account is whom jobs and catalogues belong to.
func (a *access) account() string {
	if a.credentials == nil {
		if a.fixed != "" {
			return a.fixed
		}
		return auth.Anonymous
	}
	who, err := a.credentials.Principal()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.last = who
	case a.last == "":
		a.log.Warn("the account cannot be read; calls are recorded as anonymous", "error", err)
		a.last = auth.Anonymous
	}
	return a.last
}
