package jsonrpc

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzMessage: what Read says of the bytes is true of the bytes, and edits keep
// objects valid.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2]}}}`,
		`{"jsonrpc":"2.0","id":"\u0031","result":{"content":[],"isError":false}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{}}}`,
		`{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2},"id":7}`,
		"{ \"jsonrpc\" : \"2.0\" ,\t\"\\u0069d\" : 1e3 , \"method\":\"m\"}\n",
		`{"jsonrpc":"2.0","method":"m","params":{"a":NaN},"id":7}`, `[{},{}]`, `{"a":"\ud800"}`, "\xff", `{"id":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		m, err := Read(raw)
		valid := jsontext.Value(raw).IsValid()
		if err == nil && !valid {
			t.Fatalf("Read accepts invalid JSON %q", raw)
		}
		checkSpans(t, &m)
		if valid {
			checkEdits(t, raw)
		}
		if !bytes.Equal(raw, before) {
			t.Fatalf("the input was changed from %q to %q", before, raw)
		}
	})
}

// checkSpans demands that spans that were recorded cover one JSON value each.
func checkSpans(t *testing.T, m *Message) {
	for _, s := range append([]Span{m.ID, m.Params, m.Result, m.Error, m.Version, m.MethodValue}, m.fields[:]...) {
		if v := m.Bytes(s); v != nil && !jsontext.Value(v).IsValid() {
			t.Fatalf("span %v of %q is %q", s, m.Raw, v)
		}
	}
	if id := m.Bytes(m.ID); id != nil && IDKey(id) == "" {
		t.Fatalf("id %q has no key", id)
	}
}

// checkEdits demands of a valid value what With, Without and Members promise.
func checkEdits(t *testing.T, raw []byte) {
	with := With(raw, "added\"", []byte(`{"n":1}`))
	without := Without(with, "added\"")
	if !jsontext.Value(with).IsValid() || !jsontext.Value(without).IsValid() {
		t.Fatalf("%q became %q and %q", raw, with, without)
	}
	if kindOf(raw) != '{' {
		return
	}
	if got := Get(with, "added\""); string(got) != `{"n":1}` {
		t.Fatalf("%q has no new member but %q", with, got)
	}
	if Get(raw, "added\"") == nil && !bytes.Equal(without, raw) {
		t.Fatalf("%q with and without is %q", raw, without)
	}
	for name := range Members(raw) {
		if rest := Without(raw, name); Get(rest, name) != nil || !jsontext.Value(rest).IsValid() {
			t.Fatalf("%q without %q is %q", raw, name, rest)
		}
	}
}
