package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// With --sign-in-on=list the host's request for the list of tools has the person
// sign in, and is answered with the server's tools.
func TestSignInByList(t *testing.T) {
	for _, era := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			p := protect(t, authtest.Quirks{}, bridgetest.Options{Era: era})
			host := p.bridge(p.env, "--sign-in-on=list")
			if list := p.list(host); !strings.Contains(list, `"echo"`) {
				t.Errorf("the first list: %s; standard error: %s", list, host.Stderr())
			}
			p.echoes(host)
			if n := len(p.opened()); n != 1 {
				t.Errorf("%d pages", n)
			}
		})
	}
}

// A list is not held back for a person who does not come, and one who refused is
// not asked again by the next list. The person who comes late is found.
func TestSignInByListNeedsNobody(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		p := protect(t, authtest.Quirks{}, bridgetest.Options{})
		host := p.bridge(p.absent(), "--sign-in-on=list")
		asked := time.Now()
		if list := p.list(host); strings.Contains(list, `"echo"`) || !strings.Contains(list, "starts the sign-in") {
			t.Errorf("the list before the sign-in: %s", list)
		}
		if took := time.Since(asked); took > 15*time.Second {
			t.Errorf("the list took %v", took)
		}
		p.visit(p.waitOpened())
		if _, err := host.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
			t.Fatal(err)
		}
		if list := p.list(host); !strings.Contains(list, `"echo"`) || len(p.opened()) != 1 {
			t.Errorf("the list after the sign-in: %s; pages %q", list, p.opened())
		}
	})
	t.Run("refused", func(t *testing.T) {
		p := protect(t, authtest.Quirks{Deny: "access_denied"}, bridgetest.Options{})
		host := p.bridge(p.env, "--sign-in-on=list")
		for range 3 {
			if list := p.list(host); strings.Contains(list, `"echo"`) {
				t.Errorf("a list for nobody: %s", list)
			}
		}
		if n := len(p.opened()); n != 1 {
			t.Errorf("%d pages", n)
		}
	})
	t.Run("no browser", func(t *testing.T) {
		p := protect(t, authtest.Quirks{}, bridgetest.Options{})
		host := p.bridge([]string{"BROWSER=/nowhere/browser"}, "--sign-in-on=list")
		p.list(host)
		if err := host.WaitStderr(p.ctx, "response_type=code"); err != nil {
			t.Errorf("the page is not on standard error: %v", err)
		}
	})
}
