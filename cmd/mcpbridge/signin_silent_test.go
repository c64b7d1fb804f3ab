package main

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/auth/authtest"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// What needs no person is done in the background: the first list has the tools.
func TestListedWithoutAPerson(t *testing.T) {
	t.Run("client credentials", func(t *testing.T) {
		p := protect(t, authtest.Quirks{ClientID: "app", ClientSecret: "s3cret", ClientGrant: true, NoRegistration: true}, bridgetest.Options{})
		host := p.bridge([]string{"MCPBRIDGE_CLIENT_SECRET=s3cret"}, "--oauth-grant=client_credentials", "--client-id=app")
		if list := p.list(host); !strings.Contains(list, `"echo"`) {
			t.Errorf("%s; standard error: %s", list, host.Stderr())
		}
		if l := p.auth.Ledger(); l.ClientGrants != 1 {
			t.Errorf("%d tokens were asked for", l.ClientGrants)
		}
	})
	t.Run("expired token", func(t *testing.T) {
		p := protect(t, authtest.Quirks{}, bridgetest.Options{})
		if code, _, errs := p.run(p.env, nil, p.account("login")...); code != exitOK {
			t.Fatal(errs)
		}
		p.auth.ExpireAccess()
		host := p.bridge([]string{"BROWSER=/nowhere/browser"})
		if list := p.list(host); !strings.Contains(list, `"echo"`) {
			t.Errorf("%s; standard error: %s", list, host.Stderr())
		}
		if l := p.auth.Ledger(); l.Refreshes != 1 || l.Reused != 0 {
			t.Errorf("%d renewals", l.Refreshes)
		}
	})
}

// A list of tools belongs to an account: it is shown at once to a bridge of the
// account, also while its tokens have ended, and to nobody else.
func TestCatalogueOfAccount(t *testing.T) {
	p := protect(t, authtest.Quirks{}, bridgetest.Options{})
	first := p.bridge(p.env)
	p.list(first)
	p.echoes(first)
	if _, err := first.WaitNotification(p.ctx, "notifications/tools/list_changed"); err != nil {
		t.Fatal(err)
	}
	first.Kill()
	p.auth.RevokeRefresh()
	p.auth.ExpireAccess()
	second := p.bridge([]string{"BROWSER=/nowhere/browser"})
	for range 2 { // also after the server has refused the token
		if list := p.list(second); !strings.Contains(list, `"echo"`) {
			t.Errorf("the account does not see its tools: %s", list)
		}
		p.quiet()
	}
	second.Kill()
	if code, _, errs := p.run(nil, nil, p.account("logout")...); code != exitOK {
		t.Fatal(errs)
	}
	if list := p.list(p.bridge(nil)); strings.Contains(list, `"echo"`) {
		t.Errorf("tools are shown to nobody's bridge: %s", list)
	}
}
