package sse_test

import (
	"bytes"
	"io"
	"reflect"
	"testing"
)

// FuzzEvents reads one stream whole and split, and wants the same events, none
// of them larger than allowed.
func FuzzEvents(f *testing.F) {
	for _, stream := range []string{
		"data: a\n\ndata: b\r\n\r\ndata: c\r\r", "\ufeffid: 1\nretry: 5\ndata\n\n", "id: 1\nevent: x\ndata: {\ndata: }\n\ndata: y",
		": ping\n\nid\n\nfoo\n\n", "data:0123456789\ndata:0123456789\n\nid: 2\n\n",
	} {
		f.Add([]byte(stream), uint8(1), uint8(20))
	}
	f.Fuzz(func(t *testing.T, stream []byte, split, max uint8) {
		whole, err := all(bytes.NewReader(stream), int(max))
		if err != io.EOF {
			t.Fatalf("ended with %v", err)
		}
		parts, err := all(&splitter{stream, split}, int(max))
		if err != io.EOF || !reflect.DeepEqual(whole, parts) {
			t.Fatalf("split: %v\n%+v\n%+v", err, whole, parts)
		}
		for _, e := range whole {
			if len(e.Data) > int(max) {
				t.Fatalf("%d bytes of data, %d allowed", len(e.Data), max)
			}
			if !e.Unfinished && e.Data == nil && !e.HasID && !e.HasRetry {
				t.Fatalf("an event of nothing: %+v", e)
			}
		}
	})
}

// A splitter gives its bytes in pieces whose sizes vary with step.
type splitter struct {
	rest []byte
	step uint8
}

func (s *splitter) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+int(s.step%7))], s.rest)
	s.rest, s.step = s.rest[n:], s.step*5+3
	return n, nil
}
