package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	gosse "github.com/tmaxmax/go-sse"

	"github.com/mcpbridge/mcpbridge/classify/sse"
)

const limit = 1 << 20

// all reads r to its end and returns the events and the error that ended them.
func all(r io.Reader, max int) (events []sse.Event, err error) {
	for in := sse.NewReader(r, max); ; {
		e, err := in.Next()
		var long *sse.TooLongError
		switch {
		case errors.As(err, &long):
		case err != nil:
			return events, err
		default:
			events = append(events, e)
		}
	}
}

func message(data string) sse.Event { return sse.Event{Data: []byte(data)} }

func TestEvents(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         []sse.Event
	}{
		{"empty", "", nil},
		{"only blank lines", "\n\r\n\r", nil},
		{"LF", "data: a\n\ndata: b\n\n", []sse.Event{message("a"), message("b")}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []sse.Event{message("a"), message("b")}},
		{"CR", "data: a\r\rdata: b\r\r", []sse.Event{message("a"), message("b")}},
		{"mixed ends", "data: a\r\n\rdata: b\n\r\ndata: c\r\n\n", []sse.Event{message("a"), message("b"), message("c")}},
		{"LF CR is two ends", "data: a\n\rdata: b\n\n", []sse.Event{message("a"), message("b")}},
		{"byte order mark", "\ufeffdata: a\n\n", []sse.Event{message("a")}},
		{"byte order mark before a blank line", "\ufeff\ndata: a\n\n", []sse.Event{message("a")}},
		{"byte order mark later is part of a name", "data: a\n\n\ufeffdata: b\n\n", []sse.Event{message("a")}},
		{"one space goes", "data:  a \n\n", []sse.Event{message(" a ")}},
		{"a tab stays", "data:\ta\n\n", []sse.Event{message("\ta")}},
		{"no space", "data:a\n\n", []sse.Event{message("a")}},
		{"colons in the value", "data: a: b:c\n\n", []sse.Event{message("a: b:c")}},
		{"lines are joined", "data: a\ndata:\ndata: b\n\n", []sse.Event{message("a\n\nb")}},
		{"empty data", "data:\n\n", []sse.Event{message("")}},
		{"empty data without a colon", "data\n\n", []sse.Event{message("")}},
		{"two empty lines of data", "data\ndata\n\n", []sse.Event{message("\n")}},
		{"comments", ": hello\ndata: a\n:\n:\u2028\n\n: bye\n\n", []sse.Event{message("a")}},
		{"unknown fields", "foo: 1\nDATA: x\n data: y\ndata : z\ndatas: z\ndat: z\ndata: a\n\n", []sse.Event{message("a")}},
		{"type", "event: endpoint\ndata: /m\n\ndata: a\n\n", []sse.Event{{Type: "endpoint", Data: []byte("/m")}, message("a")}},
		{"the last type counts", "event: a\nevent\ndata: x\n\n", []sse.Event{message("x")}},
		{"a type alone is nothing", "event: ping\n\ndata: a\n\n", []sse.Event{message("a")}},
		{"id", "id: 7\ndata: a\n\ndata: b\n\n", []sse.Event{{ID: "7", HasID: true, Data: []byte("a")}, message("b")}},
		{"id alone", "id: 7\n\n", []sse.Event{{ID: "7", HasID: true}}},
		{"id taken back", "id\ndata: a\n\n", []sse.Event{{HasID: true, Data: []byte("a")}}},
		{"id with NUL", "id: 1\nid: 2\x00\ndata: a\n\n", []sse.Event{{ID: "1", HasID: true, Data: []byte("a")}}},
		{"priming event", "id: 0\nretry: 3000\ndata:\n\n", []sse.Event{
			{ID: "0", HasID: true, Retry: 3 * time.Second, HasRetry: true, Data: []byte{}}}},
		{"retry alone", "retry: 0\n\n", []sse.Event{{HasRetry: true}}},
		{"retry with leading zeros", "retry: 0010\n\n", []sse.Event{{Retry: 10 * time.Millisecond, HasRetry: true}}},
		{"retry is digits only", "retry: 5s\nretry: -1\nretry: +1\nretry: 1.5\nretry:\nretry:  5\ndata: a\n\n", []sse.Event{message("a")}},
		{"retry beyond all bounds", "retry: 99999999999999999999999999\n\n", []sse.Event{
			{Retry: math.MaxInt64 / time.Millisecond * time.Millisecond, HasRetry: true}}},
		{"unfinished line", "data: a\n\ndata: {\"b", []sse.Event{message("a"), {Data: []byte(`{"b`), Unfinished: true}}},
		{"unfinished event", "data: a\n", []sse.Event{{Data: []byte("a"), Unfinished: true}}},
		{"unfinished with CR", "data: a\r", []sse.Event{{Data: []byte("a"), Unfinished: true}}},
		{"unfinished keeps its id to itself", "id: 8\ndata: a\n", []sse.Event{{Data: []byte("a"), Unfinished: true}}},
		{"unfinished with nothing but an id", "data: a\n\nid: 8\n", []sse.Event{message("a")}},
		{"unfinished type", "data: a\nevent: mess", []sse.Event{{Data: []byte("a"), Unfinished: true}}},
		{"unfinished retry", "retry: 5\nretry: 3", []sse.Event{{Retry: 5 * time.Millisecond, HasRetry: true, Unfinished: true}}},
		{"unfinished comment", "data: a\n\n: b", []sse.Event{message("a")}},
		{"bytes that are no UTF-8", "data: \xff\xfe\n\n", []sse.Event{message("\xff\xfe")}},
		{"NUL in data", "data: \x00\n\n", []sse.Event{message("\x00")}},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"whole":     func(r io.Reader) io.Reader { return r },
		"one byte":  iotest.OneByteReader,
		"half":      iotest.HalfReader,
		"early EOF": iotest.DataErrReader,
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, split := range readers {
				got, err := all(split(strings.NewReader(tt.stream)), limit)
				if err != io.EOF {
					t.Errorf("%s: ended with %v", name, err)
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("%s:\n got %+v\nwant %+v", name, got, tt.want)
				}
			}
		})
	}
}

func TestErrorComesAfterTheEvents(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset")
	r := io.MultiReader(strings.NewReader("data: a\n\nid: 4\ndata: b"), iotest.ErrReader(cut))
	got, err := all(r, limit)
	want := []sse.Event{message("a"), {Data: []byte("b"), Unfinished: true}}
	if err != cut || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// The last event must not wait for a byte that may never come.
func TestNoWaitBehindTheBlankLine(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r", "\r\n"} {
		client, server := io.Pipe()
		in := sse.NewReader(client, limit)
		go io.WriteString(server, "data: a"+end+end)
		if e, err := in.Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %+v, %v", end, e, err)
		}
		client.Close()
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	for _, n := range []int{32<<10 - 7, 32<<10 - 6, 32<<10 - 5, 32 << 10, 64 << 10, 100_000, 2 << 20} {
		for _, end := range []string{"\n", "\r\n"} {
			data := strings.Repeat("x", n)
			stream := ": " + data + end + "data: " + data + end + "data: y" + end + end + "data: z" + end + end
			got, err := all(strings.NewReader(stream), 4<<20)
			want := []sse.Event{message(data + "\ny"), message("z")}
			if err != io.EOF || !reflect.DeepEqual(got, want) {
				t.Errorf("%d %q: %d events, %v", n, end, len(got), err)
			}
			if c := cap(got[0].Data); c > n+n/4+64 {
				t.Errorf("%d bytes of data keep %d", n, c)
			}
		}
	}
}

func TestTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		name, event string
		limit       int
	}{
		{"one line", "id: 1\ndata: " + long + "\n", 100},
		{"one more", "id: 1\ndata: " + strings.Repeat("x", 101) + "\n", 100},
		{"many lines", "id: 1\n" + strings.Repeat("data: 0123456789\n", 100), 100},
		{"the line feed counts", "id: 1\ndata: " + strings.Repeat("x", 99) + "\ndata:y\n", 100},
		{"type", "id: 1\nevent: " + long + "\n", 64 << 10},
		{"id", "id: 1\nid: " + long + "\n", 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := sse.NewReader(strings.NewReader(tt.event+"id: 2\nretry: 1\n\ndata: next\n\n"), 100)
			e, err := in.Next()
			var tooLong *sse.TooLongError
			if !errors.As(err, &tooLong) || tooLong.Limit != tt.limit {
				t.Fatalf("got %v, want a limit of %d", err, tt.limit)
			}
			if e.ID != "1" || e.Data != nil {
				t.Errorf("came with %+v", e)
			}
			if e, err := in.Next(); err != nil || !reflect.DeepEqual(e, message("next")) {
				t.Errorf("then %+v, %v", e, err)
			}
		})
	}
	exact := "data: " + strings.Repeat("x", 98) + "\ndata:y\n\n"
	if got, err := all(strings.NewReader(exact), 100); err != io.EOF || len(got) != 1 {
		t.Errorf("exactly the limit: %d events, %v", len(got), err)
	}
}

func TestTooLongIsSkippedInLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := sse.NewReader(io.MultiReader(
		strings.NewReader("data: "), io.LimitReader(endless{}, 32<<20), strings.NewReader("\n\n"),
		strings.NewReader("foo: "), io.LimitReader(endless{}, 32<<20), strings.NewReader("\n\ndata: a\n\n")), 1<<20)
	if _, err := in.Next(); err == nil {
		t.Fatal("no error")
	}
	if e, err := in.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("then %+v, %v", e, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("allocated %d bytes to skip an event", n)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestBytes(t *testing.T) {
	t.Parallel()
	stream := ": ping\n\ndata: a\n\n"
	in := sse.NewReader(strings.NewReader(stream), limit)
	if in.Bytes() != 0 {
		t.Error("read before Next")
	}
	for {
		if _, err := in.Next(); err != nil {
			break
		}
	}
	if in.Bytes() != int64(len(stream)) {
		t.Errorf("read %d of %d", in.Bytes(), len(stream))
	}
}

// go-sse reads finished events the same way; it only tells less about them.
func TestSameEventsAsGoSSE(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{
		"data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r",
		"\ufeffevent: x\ndata: a\ndata: b\nid: 4\n\n", "data\n\ndata:  a\n\n: c\n\nfoo: d\ndata: e\n\n",
	} {
		compare(t, []byte(stream))
	}
}

func compare(t *testing.T, stream []byte) {
	t.Helper()
	got, _ := all(bytes.NewReader(stream), limit)
	var ours, theirs []string
	last := ""
	for _, e := range got {
		if e.HasID && !e.Unfinished {
			last = e.ID
		}
		if len(e.Data) > 0 && !e.Unfinished {
			ours = append(ours, fmt.Sprintf("%q %q %q", e.Type, last, e.Data))
		}
	}
	for e, err := range gosse.Read(bytes.NewReader(stream), &gosse.ReadConfig{MaxEventSize: 2 * limit}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Data != "" {
			theirs = append(theirs, fmt.Sprintf("%q %q %q", e.Type, e.LastEventID, e.Data))
		}
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("%q\n ours %q\nother %q", stream, ours, theirs)
	}
}
