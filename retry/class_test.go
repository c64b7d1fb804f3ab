package retry

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestToolClass(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, c := range []struct {
		why   string
		rules Rules
		tool  string
		hints Hints
		keyed bool
		want  Class
	}{
		{"no annotation, no reading word", Rules{}, "start_export", Hints{}, false, Write},
		{"no annotation, reading word", Rules{}, "get_export", Hints{}, false, PresumedRead},
		{"any annotation ends the presumption", Rules{}, "get_export", Hints{Present: true}, false, Write},
		{"read-only", Rules{}, "start_export", Hints{Present: true, ReadOnly: &yes}, false, Read},
		{"not read-only", Rules{}, "get_export", Hints{Present: true, ReadOnly: &no}, false, Write},
		{"idempotent", Rules{}, "put", Hints{Present: true, ReadOnly: &no, Idempotent: &yes}, false, Idempotent},
		{"read-only before idempotent", Rules{}, "x", Hints{Present: true, ReadOnly: &yes, Idempotent: &yes}, false, Read},
		{"keyed", Rules{}, "start_export", Hints{}, true, Idempotent},
		{"keyed and destructive", Rules{}, "x", Hints{Present: true, Destructive: &yes}, true, Idempotent},
		{"distrust", Rules{DistrustAnnotations: true}, "get_export", Hints{Present: true, ReadOnly: &yes, Idempotent: &yes}, false, Write},
		{"distrust of names", Rules{DistrustAnnotations: true}, "get_export", Hints{}, false, Write},
		{"override beats all", Rules{Overrides: []Rule{{"get_*", Write}}}, "get_export", Hints{Present: true, ReadOnly: &yes}, true, Write},
		{"first override wins", Rules{Overrides: []Rule{{"crm.*", Read}, {"*", Write}}}, "crm.delete", Hints{}, false, Read},
		{"override beats distrust", Rules{Overrides: []Rule{{"x", Read}}, DistrustAnnotations: true}, "x", Hints{}, false, Read},
	} {
		if got := c.rules.Tool(c.tool, c.hints, c.keyed); got != c.want {
			t.Errorf("%s: %s is %v, want %v", c.why, c.tool, got, c.want)
		}
	}
}

func TestReadingNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"get", "getItem", "GET_ITEM", "Get-Item", "list_files", "search", "findAll", "read.file", "fetch",
		"query_db", "lookup", "describe", "show", "count", "view", "github_get_issue", "github.list_issues", "notion-search",
		"crm.v2.getContact", "srv__web__search", "githubGetIssue", "HTTPGet", "getURL"} {
		if !namesReading(name) {
			t.Errorf("%s does not read", name)
		}
	}
	for _, name := range []string{"", "_", "getaway", "listen", "listing", "viewer", "reader_reset", "budget", "forget_user",
		"create_view", "delete_list", "run_query", "mark_read", "updateCount", "playlist_add", "target", "get2", "account",
		"do_get_and_set", "crm.delete_list"} {
		if namesReading(name) {
			t.Errorf("%s reads", name)
		}
	}
}

func TestMethodClass(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"initialize", "ping", "server/discover", "tools/list", "resources/read", "prompts/get", "tasks/get"} {
		if Method(m) != Read {
			t.Errorf("%s is %v", m, Method(m))
		}
	}
	for _, m := range []string{"", "tools/call", "tools/List", "x/y", "resources/write"} {
		if Method(m) != Write {
			t.Errorf("%s is %v", m, Method(m))
		}
	}
}

func TestParseClass(t *testing.T) {
	t.Parallel()
	for _, c := range []Class{Write, Idempotent, Read} {
		if got, err := ParseClass(c.String()); got != c || err != nil {
			t.Errorf("ParseClass(%s) = %v, %v", c, got, err)
		}
	}
	for _, bad := range []string{"", "presumed read", "READ"} {
		if c, err := ParseClass(bad); err == nil || c != Write {
			t.Errorf("ParseClass(%q) = %v", bad, c)
		}
	}
}

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"*", "", true}, {"*", "anything", true}, {"", "", true}, {"", "a", false}, {"a", "", false},
		{"get_*", "get_x", true}, {"get_*", "get_", true}, {"get_*", "Get_x", false}, {"get_*", "a.get_x", false},
		{"*_list", "a_list", true}, {"*_list", "a_lists", false}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "ba", false},
		{"?", "é", true}, {"?", "ab", false}, {"a?c", "abc", true}, {"??", "日本", true}, {"*?", "", false}, {"*?é", "xé", true},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {"a\\*", "a*", false}, {"**", "x", true}, {"*ab", "aab", true}, {"a*", "a\xff", true},
		{"*?", "\xff", true},
	} {
		if got := MatchGlob(c.glob, c.name); got != c.want {
			t.Errorf("MatchGlob(%q, %q) = %v", c.glob, c.name, got)
		}
	}
	// A hostile glob costs no more than glob times name.
	MatchGlob(strings.Repeat("*a", 256), strings.Repeat("a", 20000)+"b")
}

func TestCheckGlob(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a\nb", "\xff", strings.Repeat("a", 513)} {
		if CheckGlob(bad) == nil {
			t.Errorf("%.20q is accepted", bad)
		}
	}
	if err := CheckGlob("crm.*_?"); err != nil {
		t.Error(err)
	}
}

// FuzzGlob compares with the definition.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"a*b?c", "axxbyc"}, {"**?", "日本"}, {"*é", "xé"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 12 || len(name) > 12 || !utf8.ValidString(glob) || !utf8.ValidString(name) {
			return
		}
		if got, want := MatchGlob(glob, name), matches([]rune(glob), []rune(name)); got != want {
			t.Fatalf("MatchGlob(%q, %q) = %v", glob, name, got)
		}
	})
}

// matches is the definition of a glob.
func matches(glob, name []rune) bool {
	if len(glob) == 0 {
		return len(name) == 0
	}
	if glob[0] == '*' {
		return matches(glob[1:], name) || len(name) > 0 && matches(glob, name[1:])
	}
	return len(name) > 0 && (glob[0] == '?' || glob[0] == name[0]) && matches(glob[1:], name[1:])
}
