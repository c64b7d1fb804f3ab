package bridge

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify/jsonrpc"
)

// orders yields the members in every order.
func orders(members []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		var place func(done, left []string) bool
		place = func(done, left []string) bool {
			if len(left) == 0 {
				return yield(done)
			}
			for i := range left {
				rest := slices.Delete(slices.Clone(left), i, i+1)
				if !place(append(slices.Clone(done), left[i]), rest) {
					return false
				}
			}
			return true
		}
		place(nil, members)
	}
}

// A result reaches an older host without what it does not know and with what the
// bridge says beside it, in whatever order its members come.
func TestResultForAnOlderHost(t *testing.T) {
	t.Parallel()
	add := []member{{metaOpenJobs, []byte(`["job_a"]`)}}
	p := pair{legacyEra, modernEra, rev2025_11_25, rev2026_07_28}
	for _, meta := range []string{"", `"_meta":{"a":1}`, `"_meta":{"` + metaServerInfo + `":{}}`} {
		for _, says := range [][]member{nil, add} {
			members := []string{`"resultType":"complete"`, `"content":[]`, `"ttlMs":1`, `"cacheScope":"public"`}
			if meta != "" {
				members = append(members, meta)
			}
			for order := range orders(members) {
				for _, space := range []string{"", " "} {
					raw := `{"jsonrpc":"2.0","id":7,"result":{` + space + strings.Join(order, space+","+space) + space + `}}`
					m, err := jsonrpc.Read([]byte(raw))
					if err != nil {
						t.Fatal(err)
					}
					line := bytes.Join(p.reply("tools/call", &m, []byte(`"x"`), cacheHints{}, says), nil)
					checkOldResult(t, raw, line, len(says) > 0, strings.Contains(meta, `"a"`))
				}
			}
		}
	}
}

func checkOldResult(t *testing.T, raw string, line []byte, said, kept bool) {
	t.Helper()
	var got struct {
		ID     string
		Result map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &got); err != nil || got.ID != "x" {
		t.Fatalf("%s\nbecame %s\n%v", raw, line, err)
	}
	var meta map[string]json.RawMessage
	if text, ok := got.Result["_meta"]; ok {
		if err := json.Unmarshal(text, &meta); err != nil {
			t.Fatal(err)
		}
	}
	_, told := meta[metaOpenJobs]
	_, stays := meta["a"]
	delete(got.Result, "_meta")
	if names := slices.Collect(maps.Keys(got.Result)); !slices.Equal(names, []string{"content"}) || told != said || stays != kept {
		t.Errorf("%s\nbecame %s", raw, line)
	}
}
