//go:build unix

package stdio

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// benchPipe returns the writing end of a pipe that is always read.
func benchPipe(b *testing.B) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	w.Fd() // blocking mode
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 64<<10))
		r.Close()
	}()
	b.Cleanup(func() {
		w.Close()
		<-read
	})
	return w
}

var smallAnswer = []byte(`{"jsonrpc":"2.0","id":12,"result":{"content":[{"type":"text","text":"` + strings.Repeat("hello ", 30) + `"}]}}`)

// BenchmarkSmallAnswer is to be compared with BenchmarkSmallWrite.
func BenchmarkSmallAnswer(b *testing.B) {
	w := NewWriter(benchPipe(b), WriterOptions{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go w.Run(ctx)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Answer(b.Context(), nil, smallAnswer[:20], smallAnswer[20:]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSmallWrite(b *testing.B) {
	w := benchPipe(b)
	line := append(bytes.Clone(smallAnswer), '\n')
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeAnswer is to be compared with BenchmarkLargeWrite.
func BenchmarkLargeAnswer(b *testing.B)    { benchmarkLarge(b, false) }
func BenchmarkLargeAnswerOld(b *testing.B) { benchmarkLarge(b, true) }

func benchmarkLarge(b *testing.B, plain bool) {
	w := NewWriter(benchPipe(b), WriterOptions{})
	w.sink.(*pollSink).plain = plain
	large := bytes.Repeat([]byte("0123456789abcde "), 4<<20)
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		if err := w.Answer(b.Context(), nil, large); err != nil {
			b.Fatal(err)
		}
		if err := w.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLargeWrite(b *testing.B) {
	w := benchPipe(b)
	large := bytes.Repeat([]byte("0123456789abcde "), 4<<20)
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		if _, err := w.Write(large); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClean(b *testing.B) {
	large := bytes.Repeat([]byte("0123456789’bcde "), 4<<20)
	b.SetBytes(int64(len(large)))
	for b.Loop() {
		clean(large)
	}
}

func BenchmarkReadSmall(b *testing.B) {
	in := bytes.Repeat(append(bytes.Clone(smallAnswer), '\n'), 1000)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(in), 1<<20)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
