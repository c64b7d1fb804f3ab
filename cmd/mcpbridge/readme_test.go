package main

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
)

var updateFlags = flag.Bool("update-readme-flags", false, "write the flags of the help text into README.md")

const readmePath = "../../README.md"

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// README.md lists the flags as the help text does.
func TestReadmeFlags(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(bridgeHelp, "\nupstream:\n")
	list, _, found := strings.Cut(rest, "\nconfiguration:\n")
	if !ok || !found {
		t.Fatal("the help text has no flags")
	}
	want := "\n```text\nupstream:\n" + list + "```\n"
	const begin, end = "<!-- flags:begin -->", "<!-- flags:end -->"
	text := readme(t)
	before, rest, ok := strings.Cut(text, begin)
	got, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("README.md has no place for flags between %s and %s", begin, end)
	}
	if got == want {
		return
	}
	if !*updateFlags {
		t.Fatal("README.md lists other flags than mcpbridge help; update it with: go test ./cmd/mcpbridge -run TestReadmeFlags -update-readme-flags")
	}
	if err := os.WriteFile(readmePath, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// README.md names no flag, variable or command that does not exist.
func TestReadmeNames(t *testing.T) {
	t.Parallel()
	p := program{}
	root := p.root()
	flags := map[string]bool{"help": true}
	variables, commands := map[string]bool{secretVariable: true}, map[string]bool{"help": true, "crm": true, "https": true} // the server of all examples
	root.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for _, cmd := range root.Commands() {
		commands[cmd.Name()] = true
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, sub := range cmd.Commands() {
			sub.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		}
	}
	for _, s := range settings() {
		variables[s.variable()] = true
	}
	text := readme(t)
	for what, names := range map[string]struct {
		pattern string
		known   map[string]bool
	}{
		"flag":     {`--([a-z][a-z-]+)`, flags},
		"variable": {`(MCPBRIDGE_[A-Z_]+[A-Z])`, variables},
		"command":  {"(?:`|    )mcpbridge ([a-z]+)", commands},
	} {
		found := regexp.MustCompile(names.pattern).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("README.md names no %s", what)
		}
		for _, m := range found {
			if !names.known[m[1]] {
				t.Errorf("README.md names the %s %q, which does not exist", what, m[1])
			}
		}
	}
}

// What README.md shows to copy works.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	type server struct {
		Command string            `json:"command" toml:"command"`
		Args    []string          `json:"args" toml:"args"`
		Env     map[string]string `json:"env" toml:"env"`
		EnvVars []string          `toml:"env_vars"`
	}
	var cursor struct{ McpServers map[string]server }
	if err := json.Unmarshal([]byte(fenced(t, "json", "mcpServers")), &cursor); err != nil {
		t.Fatal(err)
	}
	var codex struct {
		Servers map[string]server `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal([]byte(fenced(t, "toml", "mcp_servers")), &codex); err != nil {
		t.Fatal(err)
	}
	for host, s := range map[string]server{"Cursor": cursor.McpServers["crm"], "Codex": codex.Servers["crm"]} {
		env := s.Env
		for _, name := range s.EnvVars {
			env = map[string]string{name: "secret"}
		}
		o := telling{args: s.Args, env: env}.mustResolve(t)
		if s.Command != "mcpbridge" || o.URL.Host != "crm.example.com" || len(o.Headers) != 1 || !strings.HasPrefix(o.Headers[0].Value.Reveal(), "Bearer ") {
			t.Errorf("%s: %q reaches %v with %d headers", host, s.Command, o.URL, len(o.Headers))
		}
	}
	o := telling{file: fenced(t, "toml", "[servers.crm]"), args: []string{"crm"}, env: map[string]string{"CRM_TOKEN": "secret"}}.mustResolve(t)
	if o.Server != "crm" || len(o.Tools) != 2 || o.Tools[0].Status == nil {
		t.Errorf("config.toml: server %q, tools %+v", o.Server, o.Tools)
	}
}

// fenced is the block of README.md in a language that holds a text.
func fenced(t *testing.T, language, holds string) string {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		if strings.Contains(m[1], holds) {
			return m[1]
		}
	}
	t.Fatalf("README.md has no %s with %s", language, holds)
	return ""
}

// Each test that README.md names as the proof of a row exists, with the part of it
// that is named.
func TestReadmeProofs(t *testing.T) {
	t.Parallel()
	sources := map[string]string{} // by test
	err := filepath.WalkDir(filepath.Dir(readmePath), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			sources[string(m[1])] += string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, survives, _ := strings.Cut(readme(t), "| What goes |")
	survives, _, _ = strings.Cut(survives, "\n\n")
	for _, row := range strings.Split(survives, "\n")[2:] {
		if cells := strings.Split(strings.Trim(row, "|"), "|"); !strings.Contains(cells[len(cells)-1], "`Test") {
			t.Errorf("README.md names no test for %s", row)
		}
	}
	named := regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`").FindAllStringSubmatch(readme(t), -1)
	if len(named) == 0 {
		t.Error("README.md names no test")
	}
	for _, m := range named {
		source, part := sources[m[1]], strings.ReplaceAll(m[2], "_", " ")
		if source == "" || !strings.Contains(source, `"`+part) {
			t.Errorf("README.md names the test %s %q, which does not exist", m[1], part)
		}
	}
}
