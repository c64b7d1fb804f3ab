package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func optionsFrom(t *testing.T, config string, flags layer, words ...string) (options, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(string) (string, bool) { return "", false }
	return resolve(flags, words, nothing, name)
}

func TestSignInSettingsOfConfig(t *testing.T) {
	t.Parallel()
	o, err := optionsFrom(t, `
callback_port = 7777
auth_timeout = "1m"
token_store = "file"
[servers.crm]
url = "https://crm.example.com/mcp"
client_id = "app"
client_secret_env = "CRM_SECRET"
oauth_grant = "client_credentials"
token_auth_method = "client_secret_post"
scope = ["a b", "c"]
resource = "https://crm.example.com"
authorize_param = ["audience=x=y", "prompt=login"]
`, nil, "crm")
	if err != nil {
		t.Fatal(err)
	}
	got := o.signIn.oauth
	if got.ClientID != "app" || got.CallbackPort != 7777 || got.Timeout.String() != "1m0s" || string(got.Grant) != "client_credentials" ||
		strings.Join(got.Scopes, ",") != "a,b,c" || got.AuthorizeParams.Get("audience") != "x=y" || got.Resource != "https://crm.example.com" {
		t.Errorf("%+v", got)
	}
	if _, err := o.oauth(func(string) (string, bool) { return "", false }); err == nil || !strings.Contains(err.Error(), "CRM_SECRET") {
		t.Errorf("a secret that is nowhere: %v", err)
	}
	for _, line := range []string{`client_id = "app"`, `token_command = "x"`, `scope = ["a"]`, `private_key = "k.pem"`} {
		if _, err := optionsFrom(t, line+"\n[servers.crm]\nurl = \"https://crm.example.com/mcp\"\n", nil, "crm"); err == nil {
			t.Errorf("%s counts for all servers", line)
		}
	}
}

func TestSignInSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"oauth-grant": "password", "token-auth-method": "magic", "callback-port": "70000", "authorize-param": "x",
		"scope": `a"b`, "client-secret-env": "s3cret value", "token-command": `"open`, "token-store": "cloud", "auth-timeout": "0s",
	} {
		flags := layer{name: value{texts: []string{text}, from: fromFlag, where: "--" + name}}
		_, err := optionsFrom(t, "", flags, "https://crm.example.com/mcp")
		if err == nil || exitCode(err) != exitUsage || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("--%s=%s: %v", name, text, err)
		}
	}
}

// The command that signs in as the bridge would holds what was said of it outside
// of config.toml, and no header.
func TestLoginCommand(t *testing.T) {
	t.Parallel()
	flags := layer{}
	for name, text := range map[string]string{"client-id": "my app", "header": "X-Key: hush", "retries": "1", "state-dir": "/var/state", "no-resource": "true"} {
		flags[name] = value{texts: []string{text}, from: fromFlag, where: "--" + name}
	}
	o, err := optionsFrom(t, "[servers.crm]\nurl = \"https://crm.example.com/mcp\"\nscope = [\"a\"]\n", flags, "crm")
	if err != nil {
		t.Fatal(err)
	}
	got := loginCommand(&o)
	want := `login '--client-id=my app' --no-resource=true --state-dir=/var/state crm`
	if runtime.GOOS == "windows" {
		return // its paths and quotes differ
	}
	if !filepath.IsAbs(got) || !strings.HasSuffix(got, want) {
		t.Errorf("%s, want it to end with %s", got, want)
	}
	if q := quoted("it's"); q != `'it'\''s'` {
		t.Errorf("quoted: %s", q)
	}
}
