package stdio

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat(" ", cleanBlock-3) // a separator across two blocks
	for _, tt := range []struct{ in, want string }{
		{``, ``},
		{`{"a":"\n\u2028"}`, `{"a":"\n\u2028"}`},
		{"{\r\n  \"a\": 1\n}\r", `{  "a": 1}`},
		{"\"\u2028\u2029\u0085\"", `"\u2028\u2029\u0085"`},
		{"{\"\u2028\":\n1}", `{"\u2028":1}`},
		{"\"\u2027\u202a\u0084\u0086’…é\"", "\"\u2027\u202a\u0084\u0086’…é\""},
		{pad + "\"\u2028\"", pad + `"\u2028"`},
		{pad + " \"\u2029\"", pad + ` "\u2029"`},
		{pad + "  \"\u0085\"", pad + `  "\u0085"`},
		{pad + "\n\"x\"", pad + `"x"`},
	} {
		if got := clean([]byte(tt.in)); string(got) != tt.want {
			t.Errorf("%.60q: got %.60q", tt.in, got)
		}
	}
}

func TestCleanCopiesOnlyWhatIsDirty(t *testing.T) {
	in := bytes.Repeat([]byte("’é"), 100_000)
	if out := clean(in); &out[0] != &in[0] {
		t.Error("copied")
	}
	if n := testing.AllocsPerRun(10, func() { clean(in) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzClean wants the same value, no line end and the size that was foretold.
func FuzzClean(f *testing.F) {
	f.Add([]byte("{\n\t\"a\u2028\": [1,\r\n2, \"\u0085\u2029\"]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after any
		if json.Unmarshal(b, &before) != nil {
			return
		}
		out := clean(b)
		n, same := cleanSize(b)
		if n != len(out) {
			t.Fatalf("%d bytes, foretold %d", len(out), n)
		}
		if same && !bytes.Equal(out, b) {
			t.Fatalf("%q became %q, foretold to stay", b, out)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, after) || bytes.ContainsAny(out, "\r\n\u2028\u2029\u0085") && bytes.Equal(bytes.ToValidUTF8(b, nil), b) {
			t.Fatalf("%q became %q", b, out)
		}
	})
}
