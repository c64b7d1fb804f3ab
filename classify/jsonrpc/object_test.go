package jsonrpc

import (
	"fmt"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	var got []string
	for name, value := range Members([]byte(` { "a" : 1 , "\u0062":{"a":[]}, "":"x" } `)) {
		got = append(got, name+"="+string(value))
	}
	if text := strings.Join(got, ";"); text != `a=1;b={"a":[]};="x"` {
		t.Errorf("members are %s", text)
	}
	for _, other := range []string{"", "1", "[]", `"x"`, "{}"} {
		for name := range Members([]byte(other)) {
			t.Errorf("%q has a member %q", other, name)
		}
	}
	if got := Get([]byte(`{"a":{"b":1},"b":2}`), "b"); string(got) != "2" {
		t.Errorf(`Get "b" is %s`, got)
	}
	if got := Get([]byte(`{"a":1}`), "b"); got != nil {
		t.Errorf("Get of nothing is %s", got)
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{}`, "a", `{"a":9}`},
		{` { } `, "a", ` {"a":9 } `},
		{`{"b":1}`, "a", `{"b":1,"a":9}`},
		{`{ "b" : 1e2 }`, "a", `{ "b" : 1e2,"a":9 }`},
		{`{"a":[1, 2],"b":1}`, "a", `{"a":9,"b":1}`},
		{`{"\u0061" : 1}`, "a", `{"\u0061" : 9}`},
		{`{}`, `q"`, `{"q\"":9}`},
		{`[]`, "a", `[]`},
	} {
		in := []byte(c[0])
		if got := string(With(in, c[1], []byte("9"))); got != c[2] || string(in) != c[0] {
			t.Errorf("With(%s, %s) = %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`{}`, `{}`},
		{`{"x":1}`, `{"x":1}`},
		{`{"a":1}`, `{}`},
		{`{ "a" : 1 }`, `{  }`},
		{`{"a":1,"x":2}`, `{"x":2}`},
		{`{"x":2, "a":1}`, `{"x":2}`},
		{`{"a":1,"b":2}`, `{}`},
		{`{"x":1 , "a":{"x":3} ,  "y":2}`, `{"x":1 ,  "y":2}`},
		{`{"b":0,"x":1,"\u0061":2,"y":{"a":1},"b":3}`, `{"x":1,"y":{"a":1}}`},
	} {
		if got := string(Without([]byte(c[0]), "a", "b")); got != c[1] {
			t.Errorf("Without(%s) = %s, want %s", c[0], got, c[1])
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	parts, err := Split([]byte(` [ {"a":1,"a":2} , 7,"x" ] `))
	if err != nil || fmt.Sprintf("%s", parts) != `[{"a":1,"a":2} 7 "x"]` {
		t.Errorf("split into %s, %v", parts, err)
	}
	for _, bad := range []string{`[]`, `[1`, `[1,]`, `[1]]`, `{}`, ``, `[` + strings.Repeat("1,", MaxBatch) + `1]`} {
		if parts, err := Split([]byte(bad)); err == nil {
			t.Errorf("Split(%.20s) = %d parts", bad, len(parts))
		}
	}
	if !IsBatch([]byte("\n [")) || IsBatch([]byte("{[")) || IsBatch(nil) {
		t.Error("IsBatch mistakes an array")
	}
}

// TestElements: the bounds of a batch are not those of a list.
func TestElements(t *testing.T) {
	t.Parallel()
	long := "[" + strings.Repeat("1,", MaxBatch) + "1]"
	for list, want := range map[string]int{`[]`: 0, " [ \n] ": 0, `[{"a":[1]},2]`: 2, long: MaxBatch + 1} {
		if parts, err := Elements([]byte(list)); err != nil || len(parts) != want {
			t.Errorf("Elements(%.20s) = %d parts, %v, want %d", list, len(parts), err, want)
		}
	}
	for _, bad := range []string{`{}`, `[1`, `[]]`, ``, `null`} {
		if _, err := Elements([]byte(bad)); err == nil {
			t.Errorf("Elements(%s) is no error", bad)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	in := []byte(`{ "b" : 1.0, "a" : "\u0041\/" , "\u20ac":[1e2 ,null]}`)
	before := string(in)
	got, err := Canonical(in)
	if err != nil || string(got) != `{"a":"A/","b":1,"€":[100,null]}` || string(in) != before {
		t.Errorf("canonical form is %s, %v (input now %s)", got, err, in)
	}
	if _, err := Canonical([]byte(`{"a":1,"a":1}`)); err == nil {
		t.Error("duplicate names have a canonical form")
	}
}

func TestAppendEdited(t *testing.T) {
	t.Parallel()
	got := AppendEdited([]byte("> "), []byte("abcdef"), Edit{Span{0, 0}, []byte("1")}, Edit{Span{1, 3}, nil}, Edit{Span{6, 6}, []byte("2")})
	if string(got) != "> 1adef2" {
		t.Errorf("edited to %q", got)
	}
}
