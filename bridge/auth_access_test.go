package bridge

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/retry"
)

// fakeCredentials are credentials whose every answer a test sets.
type fakeCredentials struct {
	mu       sync.Mutex
	use      auth.Use
	decision auth.Decision
	failure  error // of SignIn
	pending  auth.Prompt
	who      string
	whoErr   error
}

func (f *fakeCredentials) change(with func(*fakeCredentials)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	with(f)
}

func (f *fakeCredentials) Apply(context.Context, *http.Request) (auth.Use, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.use, nil
}

func (f *fakeCredentials) Challenge(context.Context, auth.Use, int, http.Header) auth.Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decision
}

func (f *fakeCredentials) Accepted(auth.Use) {}

func (f *fakeCredentials) SignIn(context.Context, auth.SignInOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

func (f *fakeCredentials) Pending() (auth.Prompt, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending, f.pending.URL != ""
}

func (f *fakeCredentials) Principal() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.who, f.whoErr
}

func accessWith(f *fakeCredentials) *access {
	a := newAccess(&Config{Credentials: f, URL: &url.URL{Scheme: "https", Host: "crm.example.com"}})
	a.onSignIn = func() {}
	return a
}

func refusedReply(status int) *reply {
	r := &reply{}
	r.capture.Status = status
	return r
}

// usedOnce is what another process presents after its sign-in: any other value
// than the zero one.
func usedOnce(t *testing.T) auth.Use {
	t.Helper()
	store, err := auth.OpenStore(t.TempDir(), auth.KeyInFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	command, err := auth.ParseCommand("echo token")
	if err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "https", Host: "crm.example.com"}
	c, err := auth.New(auth.Config{Server: u, Command: &command, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	use, err := c.Apply(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return use
}

// A pause of a minute ends soon after another process has signed in, and at once
// after this one has; without a refusal it lasts.
func TestWaitForSignIn(t *testing.T) {
	t.Parallel()
	use := usedOnce(t)
	for _, c := range []struct {
		name    string
		refused bool
		during  func(*access, *fakeCredentials)
		most    time.Duration
		least   time.Duration
	}{
		{"elsewhere", true, func(_ *access, f *fakeCredentials) { f.change(func(f *fakeCredentials) { f.use = use }) }, 2 * time.Second, time.Second},
		{"here", true, func(a *access, _ *fakeCredentials) { a.signedIn() }, time.Second, time.Second},
		{"nobody", true, func(*access, *fakeCredentials) {}, time.Minute, time.Minute},
		{"not refused", false, func(_ *access, f *fakeCredentials) { f.change(func(f *fakeCredentials) { f.use = use }) }, 75 * time.Second, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCredentials{decision: auth.Decision{Action: auth.SignIn}}
				a := accessWith(f)
				if c.refused {
					a.judge(t.Context(), refusedReply(401))
				}
				began, changes := time.Now(), a.changes()
				time.AfterFunc(time.Second, func() { c.during(a, f) })
				if !a.wait(t.Context(), changes, time.Minute) {
					t.Error("reports the end of the context")
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

func TestNeedsSignIn(t *testing.T) {
	t.Parallel()
	f := &fakeCredentials{decision: auth.Decision{Action: auth.Stop}}
	a := accessWith(f)
	for _, step := range []struct {
		decision auth.Action
		status   int
		want     bool
	}{{auth.Stop, 403, false}, {auth.Again, 401, false}, {auth.SignIn, 401, true}, {auth.SignIn, 200, false}, {auth.SignIn, 403, true}} {
		f.change(func(f *fakeCredentials) { f.decision.Action = step.decision })
		r := refusedReply(step.status)
		a.heard(r, &showing{})
		if r.refusedAccount() {
			a.judge(t.Context(), r)
		}
		if got := a.needsSignIn(); got != step.want {
			t.Errorf("after %d and %v: %v", step.status, step.decision, got)
		}
	}
}

// An account that cannot be read for a moment is the one that was seen last.
func TestAccountThatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := &fakeCredentials{who: "oauth-1"}
	a := accessWith(f)
	a.log = Config{}.withDefaults().Log
	if got := a.account(); got != "oauth-1" {
		t.Errorf("account %q", got)
	}
	f.change(func(f *fakeCredentials) { f.who, f.whoErr = "", errors.New("locked") })
	if got := a.account(); got != "oauth-1" {
		t.Errorf("account %q", got)
	}
	a = newAccess(&Config{Principal: "ann"})
	if got := a.account(); got != "ann" {
		t.Errorf("without credentials: account %q", got)
	}
}

// What is said about refused credentials names the cure that there is.
func TestTextsAboutCredentials(t *testing.T) {
	t.Parallel()
	page := auth.Prompt{URL: "https://as.example.com/authorize?x=y", Expires: time.Now().Add(time.Minute)}
	for _, c := range []struct {
		name    string
		status  int
		refusal refusal
		pending auth.Prompt
		want    []string
		not     string
	}{
		{"page open", 401, refusal{decision: auth.Decision{Action: auth.SignIn}, prompt: page}, auth.Prompt{},
			[]string{"SIGN-IN NEEDED: server crm ", page.URL, "run in a terminal: /bin/mcpbridge login crm"}, "failed"},
		{"page of another call", 401, refusal{decision: auth.Decision{Action: auth.SignIn}}, page, []string{"SIGN-IN NEEDED: ", page.URL}, "failed"},
		{"code", 401, refusal{decision: auth.Decision{Action: auth.SignIn}, prompt: auth.Prompt{URL: page.URL, UserCode: "AB-CD", Expires: page.Expires}}, auth.Prompt{},
			[]string{"type the code AB-CD"}, "browser"},
		{"denied", 401, refusal{decision: auth.Decision{Action: auth.SignIn}, failure: auth.ErrDenied}, auth.Prompt{},
			[]string{"SIGN-IN NEEDED: ", "sign-in refused", "mcpbridge login crm"}, "http://"},
		{"too late", 401, refusal{decision: auth.Decision{Action: auth.SignIn}, failure: auth.ErrTimeout}, auth.Prompt{},
			[]string{"SIGN-IN NEEDED: ", "its link is dead now"}, "http://"},
		{"cannot renew", 401, refusal{decision: auth.Decision{Action: auth.Stop, Why: "renew token: not available"}}, auth.Prompt{},
			[]string{"SIGN-IN NEEDED: ", "renew token: not available"}, "http://"},
		{"no permission", 403, refusal{decision: auth.Decision{Action: auth.Stop, Why: "the account may not have it"}}, auth.Prompt{},
			[]string{"FAILED: server crm refused ", "the account may not have it", "nothing was executed"}, "login"},
	} {
		x := anExchange(t, textCase{class: retry.Write})
		x.bridge.access = accessWith(&fakeCredentials{pending: c.pending})
		x.bridge.cfg.Login, x.refusal = "/bin/mcpbridge login crm", c.refusal
		text := explained(captured(c.status, "text/plain", "", "Www-Authenticate", `Bearer error="insufficient_scope"`))(x)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: not in the text: %q\n%s", c.name, want, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q is in the text: %s", c.name, c.not, text)
		}
		if len(text) >= maxNote {
			t.Errorf("%s: %d bytes", c.name, len(text))
		}
	}
}
