package classify_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/classify"
	"github.com/mcpbridge/mcpbridge/classify/recorded"
)

var update = flag.Bool("update", false, "write the verdicts into testdata/reply")

const corpus = "../testdata/reply"

// A golden is one recorded reply: what was asked and how it went ("asked", one
// "name value" a line), the raw response ("reply", or "reply.quoted" as Go
// strings where bytes matter that a text file does not keep), and the verdict.
type golden struct {
	*archive
	expect  classify.Expectation
	capture classify.Capture
}

// readGolden reads one file of the corpus.
func readGolden(path string) (*golden, error) {
	a, err := readArchive(path)
	if err != nil {
		return nil, err
	}
	g := &golden{archive: a}
	asked := g.part("asked")
	if asked == nil {
		return nil, fmt.Errorf("%s has no part asked", path)
	}
	flags := map[string]string{"method": "tools/call", "id": "1", "protocol": "2026-07-28", "ended": "complete"}
	for line := range strings.Lines(string(asked.data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		flags[name] = value
	}
	raw, err := g.reply()
	if err != nil {
		return nil, err
	}
	ended := map[string]classify.Ended{"cut": classify.Cut, "complete": classify.Complete, "timeout": classify.Timeout, "cancelled": classify.Cancelled}
	if g.capture, err = recorded.Parse(raw, ended[flags["ended"]]); err != nil {
		return nil, err
	}
	return g, g.set(flags)
}

func (g *golden) reply() ([]byte, error) {
	if p := g.part("reply"); p != nil {
		return p.data, nil
	}
	p := g.part("reply.quoted")
	if p == nil {
		return nil, nil
	}
	var raw []byte
	for line := range strings.Lines(string(p.data)) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		raw = append(raw, text...)
	}
	return raw, nil
}

func (g *golden) set(flags map[string]string) error {
	for name, value := range flags {
		switch name {
		case "method":
			g.expect.Method = value
		case "id":
			g.expect.ID = []byte(value)
		case "protocol":
			g.expect.Protocol = value
		case "offered":
			g.expect.OfferedTasks = value == "tasks"
			g.expect.UnknownExtension = value == "unknown"
		case "session":
			g.expect.Session = true
		case "elsewhere":
			g.expect.ReplyElsewhere = true
		case "sent":
			g.capture.Sent = classify.NothingSent
		case "failed":
			stages := map[string]classify.Stage{"resolve": classify.Resolve, "connect": classify.Connect, "proxy": classify.Proxy,
				"handshake": classify.Handshake, "refused": classify.Refused, "exchange": classify.Exchange}
			g.capture.Failed = stages[value]
		case "detail":
			g.capture.Detail = value
		case "ended", "":
		default:
			return fmt.Errorf("unknown flag %q", name)
		}
	}
	if _, notification := flags["notification"]; notification || strings.HasPrefix(g.expect.Method, "notifications/") {
		g.expect.ID = nil
	}
	return nil
}

func corpusFiles(t testing.TB) []string {
	paths, err := filepath.Glob(filepath.Join(corpus, "*.txtar"))
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d recorded replies in %s (%v)", len(paths), corpus, err)
	}
	return paths
}

// TestRecordedReplies judges every recorded reply.
func TestRecordedReplies(t *testing.T) {
	t.Parallel()
	for _, path := range corpusFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			g, err := readGolden(path)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			verdict, err := json.Marshal(classify.Reply(g.expect, g.capture))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Indent(&got, verdict, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			want := g.part("verdict")
			if *update {
				if want == nil {
					g.parts = append(g.parts, part{name: "verdict"})
					want = &g.parts[len(g.parts)-1]
				}
				want.data = got.Bytes()
				if err := g.write(path); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want == nil || !bytes.Equal(want.data, got.Bytes()) {
				t.Errorf("verdict is\n%s", got.Bytes())
			}
		})
	}
}
