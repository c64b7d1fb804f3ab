package jsonrpc

import (
	"errors"
	"strings"
	"testing"
)

func TestReadKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw    string
		kind   Kind
		method string
		id     string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, Request, "tools/call", "1"},
		{`{"jsonrpc":"2.0","id":"1","method":"a/b"}`, Request, "a/b", `"1"`},
		{`{"jsonrpc":"2.0","id":1.0,"method":"m","params":[]}`, Request, "m", "1.0"},
		{`{"jsonrpc":"2.0","id":1e3,"method":"m"}`, Request, "m", "1e3"},
		{`{"jsonrpc":"2.0","id":15e-1,"method":"m"}`, Invalid, "m", "15e-1"},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, Request, "m", "9007199254740993"},
		{`{"jsonrpc":"2.0","\u0069d":"\u0031","\u006dethod":"m"}`, Request, "m", `"\u0031"`},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, Notification, "notifications/progress", ""},
		{` {"jsonrpc":"2.0","id":1,"result":{}} ` + "\n", Response, "", "1"},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, Response, "", "1"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, Response, "", "null"},
		{`{"jsonrpc":"2.0","error":{"code":-32700.0,"message":"x"}}`, Response, "", ""},
		{"{\r\n\t\"jsonrpc\" : \"2.0\" ,\n \"id\" : 1 , \"result\" : { \"isError\" : true } }", Response, "", "1"},
	} {
		m, err := Read([]byte(c.raw))
		if m.Kind != c.kind || m.Method != c.method || string(m.Bytes(m.ID)) != c.id || (err == nil) != (c.kind != Invalid) {
			t.Errorf("Read(%s) = kind %d, method %q, id %s, %v", c.raw, m.Kind, m.Method, m.Bytes(m.ID), err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, c := range []struct {
		raw   string
		class Class
		why   string
		id    string
	}{
		{``, Syntax, "nothing", ""},
		{" \n", Syntax, "nothing", ""},
		{`{"jsonrpc":"2.0","id":7,"method":"m"`, Syntax, "too early", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m"}}`, Syntax, "more bytes", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m"} {}`, Syntax, "more bytes", "7"},
		{`{"jsonrpc":"2.0","method":"m","params":{"a":NaN},"id":7}`, Syntax, "", "7"},
		{`{"jsonrpc":"2.0","method":"m","params":{"a":[},"id":7}`, Syntax, "", ""},
		{`{"jsonrpc":"2.0","method":"m","params":{'a':1},"id":"a\"b"}`, Syntax, "", `"a\"b"`},
		{`{"jsonrpc":"2.0","method":"m","params":{"id":8,}}`, Syntax, "", ""},
		{`{"id":7,"a":` + deep + `}`, Syntax, "", "7"},
		{`[1] x`, Syntax, "more bytes", ""},
		{`<html>`, Syntax, "", ""},
		{`{"jsonrpc":"2.0","method":"m","params":{"a":1,"\u0061":2},"id":7}`, DuplicateName, `"a"`, "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":[{"y":{"a":1,"a":2}}]}}`, DuplicateName, `"a"`, "7"},
		{`{"jsonrpc":"2.0","id":7,"id":7,"method":"m"}`, DuplicateName, `"id"`, ""},
		{`{"jsonrpc":"2.0","method":"m","method":"n","id":7}`, DuplicateName, "", "7"},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"a\":\"\xff\"},\"id\":7}", UTF8, "", "7"},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"\xc3(\":1}}", UTF8, "", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\ud800"}}`, UTF8, "", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"\x"}}`, Syntax, "", "7"},
		{`"text"`, Envelope, "not an object", ""},
		{`[]`, Envelope, "not an object", ""},
		{`{}`, Envelope, "2.0", ""},
		{`{"jsonrpc":"1.0","id":7,"method":"m"}`, Envelope, "2.0", "7"},
		{`{"jsonrpc":2.0,"id":7,"method":"m"}`, Envelope, "2.0", "7"},
		{`{"JSONRPC":"2.0","id":7,"method":"m"}`, Envelope, "2.0", "7"},
		{`{"jsonrpc":"2.0","id":7}`, Envelope, "none of", "7"},
		{`{"jsonrpc":"2.0","id":7,"Method":"m"}`, Envelope, "none of", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":5}`, Envelope, "not a string", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":null}`, Envelope, "not a string", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":null}`, Envelope, "params", "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":"x"}`, Envelope, "params", "7"},
		{`{"jsonrpc":"2.0","id":null,"method":"m"}`, Envelope, "id", "null"},
		{`{"jsonrpc":"2.0","id":true,"method":"m"}`, Envelope, "id", "true"},
		{`{"jsonrpc":"2.0","id":{},"method":"m"}`, Envelope, "id", "{}"},
		{`{"jsonrpc":"2.0","id":[1],"method":"m"}`, Envelope, "id", "[1]"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"m"}`, Envelope, "fraction", "1.5"},
		{`{"jsonrpc":"2.0","id":1e-400,"method":"m"}`, Envelope, "fraction", "1e-400"},
		{`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 2000) + `,"method":"m"}`, Envelope, "longer", strings.Repeat("9", 2000)},
		{`{"jsonrpc":"2.0","id":7,"method":"m","result":{}}`, Envelope, "both", "7"},
		{`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}`, Envelope, "both", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":"x"}`, Envelope, "not an object", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":null}`, Envelope, "not an object", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"message":"x"}}`, Envelope, "code", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":"1","message":"x"}}`, Envelope, "code", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1.5,"message":"x"}}`, Envelope, "code", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1e99,"message":"x"}}`, Envelope, "code", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1}}`, Envelope, "message", "7"},
		{`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":null}}`, Envelope, "message", "7"},
		{`{"jsonrpc":"2.0","id":false,"result":{}}`, Envelope, "id", "false"},
	} {
		m, err := Read([]byte(c.raw))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("Read(%.80s) gave no *Error but %v", c.raw, err)
			continue
		}
		if e.Class != c.class || !strings.Contains(e.Error(), c.why) || m.Kind != Invalid {
			t.Errorf("Read(%.80s): %v: %v; want %v: %s", c.raw, e.Class, e, c.class, c.why)
		}
		if string(m.Bytes(m.ID)) != c.id {
			t.Errorf("Read(%.80s): id %s, want %s", c.raw, m.Bytes(m.ID), c.id)
		}
	}
}

func TestErrorStaysShort(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("é", 5000)
	_, err := Read([]byte(`{"` + name + `":1,"` + name + `":2}`))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("an error of %d bytes: %v", len(err.Error()), err)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	m, err := Read([]byte(`{"jsonrpc":"2.0","method":"tools/call","params":{ "name" : "a b" ,"_meta":{"progressToken":1},"arguments":{"name":"inner"},"x":[1]},"id":"i"}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[Key]string{
		Name: `"a b"`, Meta: `{"progressToken":1}`, Arguments: `{"name":"inner"}`, ProgressToken: "", Key(200): "",
	} {
		if got := string(m.Field(k)); got != want {
			t.Errorf("field %d is %s, want %s", k, got, want)
		}
	}
	if got := string(m.Bytes(m.Params)); got != `{ "name" : "a b" ,"_meta":{"progressToken":1},"arguments":{"name":"inner"},"x":[1]}` {
		t.Errorf("params are %s", got)
	}
}

func TestFieldsOfEveryKey(t *testing.T) {
	t.Parallel()
	names := []string{"_meta", "name", "uri", "arguments", "protocolVersion", "capabilities", "clientInfo", "cursor",
		"level", "requestId", "reason", "progressToken", "progress", "inputResponses", "requestState", "task", "taskId",
		"notifications", "resultType", "isError", "content", "structuredContent", "inputRequests", "nextCursor", "tools",
		"resources", "resourceTemplates", "prompts", "ttlMs", "cacheScope", "supportedVersions", "serverInfo",
		"instructions", "code", "message", "data"}
	if len(names) != int(numKeys) {
		t.Fatalf("%d names for %d keys", len(names), numKeys)
	}
	for k, name := range names {
		m, err := Read([]byte(`{"jsonrpc":"2.0","id":1,"result":{"` + name + `":[` + name[:0] + `7]}}`))
		if got := string(m.Field(Key(k))); err != nil || got != "[7]" {
			t.Errorf("member %q is read as %q (%v)", name, got, err)
		}
	}
}

func TestReplyID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{`"a"`: `"a"`, `1e0`: `1e0`, `null`: `null`, `{"a":1}`: `null`, `1.5`: `1.5`} {
		m, _ := Read([]byte(`{"jsonrpc":"2.0","method":"m","id":` + id + `}`))
		if got := string(m.ReplyID()); got != want {
			t.Errorf("answer to id %s goes to %s, want %s", id, got, want)
		}
	}
}

func TestIDKey(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{"1", "1.0", "1e0", "10e-1", "0.1E+1", "0.01e2"},
		{"0", "-0", "0.0", "0e99999999999999999999"},
		{"1000", "1e3", "1E+3", "1.0e3", "1000.00"},
		{"-5", "-5.0"},
		{`"1"`, `"\u0031"`},
		{"9007199254740992"}, {"9007199254740993"}, {`"a"`}, {`"1e0"`}, {"null"}, {"true"},
		{"1e999999999999999999999999"}, {"1e999999999999999999999998"}, {"5"},
	}
	for i, group := range same {
		for j, other := range same {
			for _, a := range group {
				for _, b := range other {
					if got := SameID([]byte(a), []byte(b)); got != (i == j) {
						t.Errorf("SameID(%s, %s) = %v", a, b, got)
					}
				}
			}
		}
	}
	if SameID(nil, []byte("1")) || !SameID(nil, nil) {
		t.Error("an absent id is the same as a present one")
	}
}

func TestInteger(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"-32600": -32600, "-326e2": -32600, "0": 0, "-0.0": 0, "0e5": 0, "1.50e1": 15,
		"9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808} {
		if n, ok := Integer([]byte(text)); !ok || n != want {
			t.Errorf("Integer(%s) = %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", `"1"`, "1.5", "9223372036854775808", "1e19", "1e999999999999", "null", "1e-1"} {
		if n, ok := Integer([]byte(text)); ok {
			t.Errorf("Integer(%s) = %d", text, n)
		}
	}
}
