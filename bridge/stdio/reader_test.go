package stdio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcpbridge/mcpbridge/bridge/stdio"
)

func read(r io.Reader, max int) (got []string, err error) {
	in := stdio.NewReader(r, max)
	for {
		line, err := in.Next()
		var long *stdio.LineTooLongError
		switch {
		case errors.As(err, &long):
			got = append(got, fmt.Sprintf("too long: %s %s", long.ID, long.Method))
		case err != nil:
			return got, err
		default:
			got = append(got, string(line))
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"two", "{}\n[]\n", []string{"{}", "[]"}},
		{"CRLF", "{}\r\n[]\r\n", []string{"{}", "[]"}},
		{"spaces and empty lines", "\n \t{} \t\r\n\r\n  \n[]\n\n", []string{"{}", "[]"}},
		{"unfinished", "{}\n[]", []string{"{}", "[]"}},
		{"unfinished space", "{}\n  ", []string{"{}"}},
		{"only LF ends a line", "\"a\u2028b\u0085c\vd\fe\rf\"\n", []string{"\"a\u2028b\u0085c\vd\fe\rf\""}},
		{"longer than the buffer", long + "\r\n" + long + "y\nz", []string{long, long + "y", "z"}},
		{"as long as allowed", strings.Repeat("m", 300_000) + "\r\n", []string{strings.Repeat("m", 300_000)}},
		{"one more", strings.Repeat("m", 300_001) + "\nz\n", []string{"too long:  ", "z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in),
				"half":  iotest.HalfReader(strings.NewReader(tt.in)),
				"byte":  iotest.OneByteReader(strings.NewReader(tt.in)),
				"early": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := read(r, 300_000)
				if err != io.EOF || fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("%s: %.200q, %v", name, got, err)
				}
			}
		})
	}
}

func TestReadErrorEndsTheUnfinishedLine(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	got, err := read(io.MultiReader(strings.NewReader("{}\n{\"a\""), iotest.ErrReader(broken)), 100)
	if err != broken || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLineBelongsToCaller(t *testing.T) {
	t.Parallel()
	in := stdio.NewReader(strings.NewReader("first\nother\n"), 100)
	first, _ := in.Next()
	in.Next()
	if string(first) != "first" || cap(first) > 16 {
		t.Errorf("%q, capacity %d", first, cap(first))
	}
}

func TestIDOfLongLine(t *testing.T) {
	t.Parallel()
	pad := `"pad":"` + strings.Repeat("x", 150_000) + `"`
	for _, tt := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call",` + pad + `}`, "7 tools/call"},
		{`{` + pad + `,"method":"tools/call","id":"7"}`, `"7" tools/call`},
		{`{` + pad + ` , "id" : 1e3 , "method" : "m" }`, "1e3 m"},
		{`{` + pad + `,"id":9007199254740993}`, "9007199254740993 "},
		{`{"params":{"id":1,"method":"x",` + pad + `},"id":2}`, "2 "},
		{`{"params":[{"id":1},"id",` + pad + `],"id":2}`, "2 "},
		{`{"x":"\"id\":1,{[",` + pad + `,"id":"a\"}\\","method":"m"}`, `"a\"}\\" m`},
		{`{"\u0069d":5,"m\u0065thod":"a\/b",` + pad + `}`, "5 a/b"},
		{`{"id":null,` + pad + `}`, " "},
		{`{"id":{"a":1},` + pad + `}`, " "},
		{`{"id":[1],` + pad + `}`, " "},
		{`{"id":true,` + pad + `}`, " "},
		{`{"id":12 34,` + pad + `}`, " "},
		{`{"id":bad,` + pad + `}`, " "},
		{`{"id":1,"id":2,` + pad + `}`, " "},
		{`{"ID":1,"ids":2,` + pad + `}`, " "},
		{`{"id":"` + strings.Repeat("y", 70_000) + `","method":"m",` + pad + `}`, " m"},
		{`{"id":"` + strings.Repeat("y", 60_000) + `",` + pad + `}`, `"` + strings.Repeat("y", 60_000) + `" `},
		{`[{"id":1,` + pad + `}]`, " "},
		{`"id":1,` + pad, " "},
		{`{"id":1}{"id":2,` + pad + `}`, "1 "},
		{`{` + pad + `,"id":5`, " "},
		{`{"id":5,` + pad, "5 "},
		{`}},"id":5,` + pad, " "},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in + "\nnext\n"),
			"byte":  iotest.OneByteReader(strings.NewReader(tt.in + "\nnext\n")),
		} {
			got, err := read(r, 1000)
			if want := []string{"too long: " + tt.want, "next"}; err != io.EOF || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %.60s…: %.100q, %v, want %.100q", name, tt.in, got, err, want)
			}
		}
	}
	got, err := read(strings.NewReader(`{"id":5,`+pad), 1000)
	if err != io.EOF || fmt.Sprint(got) != "[too long: 5 ]" {
		t.Errorf("unfinished: %q, %v", got, err)
	}
}

// An id shorter than the line's limit is found in a line just over it, too.
func TestIDOfSlightlyLongLine(t *testing.T) {
	t.Parallel()
	got, _ := read(strings.NewReader(`{"id":5,"method":"m"}`+"\n"), 10)
	if fmt.Sprint(got) != "[too long: 5 m]" {
		t.Errorf("%q", got)
	}
}

func TestLongLineCostsLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	line := io.MultiReader(strings.NewReader(`{"a":"`), io.LimitReader(endless{}, 64<<20), strings.NewReader(`","id":3}`+"\n{}\n"))
	got, err := read(line, 1<<20)
	runtime.ReadMemStats(&after)
	if err != io.EOF || fmt.Sprint(got) != "[too long: 3  {}]" {
		t.Fatalf("%q, %v", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func TestNothingIsKeptOfALargeLine(t *testing.T) {
	const size = 64 << 20
	in := stdio.NewReader(io.MultiReader(io.LimitReader(endless{}, size), strings.NewReader("\n{}\n")), size)
	line, err := in.Next()
	if err != nil || len(line) != size {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	line = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > size/2 {
		t.Errorf("%d bytes are held after the line", m.HeapAlloc)
	}
	if line, err = in.Next(); string(line) != "{}" || err != nil {
		t.Errorf("then %q, %v", line, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	p[0] = 'x'
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	return len(p), nil
}

// FuzzLines wants every line as it stands in the stream, whatever the stream.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\r\n\n [] \n{\"id\":1,\"method\":\"m\"}\nlast"), uint16(12))
	f.Add([]byte(`{"a":{"id":[1,2]},"id":"\"x","method":`+"\n\n"), uint16(3))
	f.Add(bytes.Repeat([]byte("0123456789"), 14_000), uint16(70_00))
	f.Fuzz(func(t *testing.T, stream []byte, max uint16) {
		var want []string
		for _, line := range bytes.Split(stream, []byte("\n")) {
			line = bytes.Trim(line, " \t\r")
			if len(line) > 0 {
				want = append(want, string(line))
			}
		}
		in := stdio.NewReader(bytes.NewReader(stream), int(max))
		for _, w := range want {
			line, err := in.Next()
			var long *stdio.LineTooLongError
			switch {
			case errors.As(err, &long):
				if len(long.ID) > len(w) || !strings.Contains(w, string(long.ID)) {
					t.Fatalf("id %q is not in %q", long.ID, w)
				}
			case err != nil || string(line) != w || len(line) > int(max):
				t.Fatalf("got %q, %v, want %q", line, err, w)
			}
		}
	})
}
