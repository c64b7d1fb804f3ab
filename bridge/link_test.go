package bridge

import (
	"net/http"
	"strings"
	"testing"
)

func replaceID(text, id string) string { return strings.ReplaceAll(text, "ID", id) }

// What a probe got is never taken for the answer to the host's call, which has
// not left.
func TestProbeFailureIsNotTheCalls(t *testing.T) {
	t.Parallel()
	const call = `{"name":"write_note","arguments":{"key":"k"}}`
	for _, c := range []struct {
		name   string
		cfg    Config
		answer func(method string) (int, string)
	}{
		{"only a version to come", Config{}, func(string) (int, string) {
			return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2027-01-01"],"capabilities":{"tools":{}}}}`
		}},
		{"modern asked of a legacy server", Config{Protocol: EraModern}, func(string) (int, string) {
			return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found: server/discover"}}`
		}},
		{"trouble", Config{Retries: -1}, func(string) (int, string) {
			return http.StatusServiceUnavailable, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"busy"}}`
		}},
		{"a handshake that is too large", Config{MaxMessage: 16 << 10}, func(method string) (int, string) {
			if method == "server/discover" {
				return http.StatusNotFound, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such method"}}`
			}
			return http.StatusOK, `{"jsonrpc":"2.0","id":ID,"result":{` + strings.Repeat(" ", 32<<10) + `}}`
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.cfg.URL = serve(t, c.answer)
			p := startInProcess(t, c.cfg)
			p.initialize()
			got := p.call("tools/call", call)
			if text := string(got.Raw); !strings.Contains(text, "NOT SENT") || !strings.Contains(text, "nothing was executed") {
				t.Errorf("told %s", text)
			}
		})
	}
}

// A bridge whose configuration is broken answers everything and stays.
func TestBrokenAnswersEverything(t *testing.T) {
	t.Parallel()
	p := startInProcess(t, Config{Broken: errTooLarge})
	p.initialize()
	for method, params := range map[string]string{
		"ping": `{}`, "tools/list": `{}`, "prompts/list": `{}`, "resources/list": `{}`, "resources/templates/list": `{}`,
		"logging/setLevel": `{"level":"info"}`, "resources/subscribe": `{"uri":"a:b"}`, "resources/read": `{"uri":"a:b"}`,
		"completion/complete": `{}`, "tools/call": `{"name":"x"}`, "tasks/get": `{"taskId":"x"}`, "unknown/method": `{}`,
		"subscriptions/listen": `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["a:b"]}}`,
	} {
		p.call(method, params)
	}
}
