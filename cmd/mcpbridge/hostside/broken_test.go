package hostside

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// With a configuration that cannot work, every method is answered, in both eras,
// and the process lives.
func TestBrokenConfigurationAnswersEveryMethod(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the place of the user's config.toml is another one here")
	}
	requests := [][2]string{
		{"ping", `{}`}, {"tools/list", `{}`}, {"tools/call", `{"name":"anything","arguments":{}}`}, {"tools/call", `{"name":"mcpbridge_status","arguments":{}}`},
		{"tools/call", `{"name":"mcpbridge_job","arguments":{"handle":"job_x"}}`}, {"tools/call", `{}`},
		{"prompts/list", `{}`}, {"prompts/get", `{"name":"p"}`}, {"resources/list", `{}`}, {"resources/templates/list", `{}`},
		{"resources/read", `{"uri":"test://a"}`}, {"resources/subscribe", `{"uri":"test://a"}`}, {"resources/unsubscribe", `{"uri":"test://a"}`},
		{"logging/setLevel", `{"level":"info"}`}, {"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`},
		{"tasks/get", `{"taskId":"t"}`}, {"tasks/list", `{}`}, {"tasks/cancel", `{"taskId":"t"}`}, {"tasks/result", `{"taskId":"t"}`}, {"tasks/update", `{"taskId":"t"}`},
		{"roots/list", `{}`}, {"nobody/knows", `{}`},
	}
	for _, version := range []string{"", v2503, v2511, modern} {
		r := start(t, nil, setup{url: "crm"})
		file := filepath.Join(r.home, ".config", "mcpbridge", "config.toml")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("[servers.crm\nurl = 'https://crm.example/mcp'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.quit() // it read nothing; this one does:
		r.launch()
		if version != "" {
			r.shakeHands(version)
		}
		for _, one := range requests {
			got := r.request(one[0], one[1])
			if got.Error == nil && got.Result == nil {
				t.Errorf("%q: %s: %s", version, one[0], got.Raw)
			}
			if one[0] == "tools/call" && one[1] != `{}` && !strings.Contains(got.Text(), "config.toml") {
				t.Errorf("%q: a call does not say what is wrong: %s", version, got.Raw)
			}
		}
		if version == modern {
			listens(r)
		}
		for _, note := range []string{"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "nobody/knows"} {
			if err := r.host.Notify(note, `{"requestId":99,"progressToken":1,"progress":1}`); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.request("tools/list", `{}`); !strings.Contains(string(got.Result), "mcpbridge_status") {
			t.Errorf("%q: %s", version, got.Raw)
		}
		r.quit()
	}
}

// listens opens subscriptions, with and without a URI; each is acknowledged or
// refused.
func listens(r *rig) {
	r.t.Helper()
	for _, params := range []string{
		`{"notifications":{"resourceSubscriptions":["test://a"]}}`, `{"notifications":{"toolsListChanged":true}}`, `{"notifications":{}}`, `{}`,
	} {
		id := r.host.NextID()
		if err := r.host.Request(id, "subscriptions/listen", params); err != nil {
			r.t.Fatal(err)
		}
		for len(r.host.Replies(id)) == 0 && !acknowledged(r, id) {
			if r.barrier(); r.ctx.Err() != nil {
				r.t.Fatalf("subscriptions/listen with %s is neither acknowledged nor refused", params)
			}
		}
	}
}

func acknowledged(r *rig, id string) bool {
	for _, line := range r.host.Lines() {
		if s := string(line); strings.Contains(s, "subscriptions/acknowledged") && strings.Contains(s, `subscriptionId":`+id) {
			return true
		}
	}
	return false
}
