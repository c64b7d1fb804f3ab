package eras

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

var (
	printMatrix  = flag.Bool("print-matrix", false, "print the matrix of eras and features as a table")
	updateReadme = flag.Bool("update-readme", false, "write that table into README.md between its markers")
)

const (
	readme      = "../../../README.md"
	beginMarker = "<!-- eras:begin -->"
	endMarker   = "<!-- eras:end -->"
)

// A pair is a host of a revision in front of a server of an era.
type pair struct {
	version string
	era     bridgetest.Era
}

func (p pair) String() string { return p.version + " to " + p.era.String() }

// column is what the reader of the table sees of a pair.
func (p pair) column() string {
	if p.version == modern {
		return "modern to " + p.era.String()
	}
	return "legacy to " + p.era.String()
}

func columns() []string {
	return []string{"legacy to legacy", "legacy to modern", "modern to legacy", "modern to modern"}
}

// pairs lists all pairs, the newest host of each column first.
func pairs() []pair {
	var out []pair
	for _, v := range []string{modern, v2511, v2506, v2503, v2024} {
		for _, e := range []bridgetest.Era{bridgetest.Legacy, bridgetest.Modern} {
			out = append(out, pair{v, e})
		}
	}
	return out
}

// A cell is what became of a feature for one pair.
type cell struct {
	feature string
	pair    pair
	text    string
}

// TestMatrix runs every feature for every pair. What a cell says is what the
// server and the host saw; each feature checks that it is what the rules want.
func TestMatrix(t *testing.T) {
	var mu sync.Mutex
	var cells []cell
	t.Run("pairs", func(t *testing.T) {
		for _, p := range pairs() {
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				for _, g := range groups() {
					up := startUpstream(t, bridgetest.Options{Era: p.era, Tasks: true, Tools: serverTools()})
					r := start(t, up, g.options(p))
					for _, f := range g.features {
						t.Run(f.name, func(t *testing.T) {
							text := f.check(r.under(t), p)
							mu.Lock()
							defer mu.Unlock()
							cells = append(cells, cell{f.name, p, text})
						})
					}
				}
			})
		}
	})
	text := table(cells)
	if *printMatrix {
		fmt.Println(text)
	}
	if *updateReadme && !t.Failed() {
		update(t, text)
	}
}

// under is r for a test within the one that started it.
func (r *rig) under(t *testing.T) *rig {
	r.t, r.ctx = t, limited(t)
	return r
}

// table draws the cells: a row for each feature, a column for each pair of eras.
// Where hosts of older revisions fare otherwise than the newest, the cell says so.
func table(cells []cell) string {
	var b strings.Builder
	b.WriteString("| Host to server | " + strings.Join(columns(), " | ") + " |\n| --- | --- | --- | --- | --- |\n")
	for _, g := range groups() {
		for _, f := range g.features {
			b.WriteString("| " + f.name)
			for _, c := range columns() {
				b.WriteString(" | " + summary(cells, f.name, c))
			}
			b.WriteString(" |\n")
		}
	}
	return b.String()
}

func summary(cells []cell, feature, column string) string {
	byText := map[string][]string{}
	var texts []string
	for _, p := range pairs() {
		i := slices.IndexFunc(cells, func(c cell) bool { return c.feature == feature && c.pair == p })
		if p.column() != column || i < 0 {
			continue
		}
		text := cells[i].text
		if byText[text] == nil {
			texts = append(texts, text)
		}
		byText[text] = append(byText[text], p.version)
	}
	for i, text := range texts {
		if len(texts) > 1 {
			texts[i] = text + " (" + strings.Join(byText[text], ", ") + ")"
		}
	}
	return strings.Join(texts, "; ")
}

// update writes the table into the README, if that has a place for it.
func update(t *testing.T, text string) {
	t.Helper()
	old, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), beginMarker)
	_, after, ends := strings.Cut(rest, endMarker)
	if !ok || !ends {
		t.Fatalf("%s has no place between %s and %s", readme, beginMarker, endMarker)
	}
	whole := before + beginMarker + "\n" + text + endMarker + after
	if err := os.WriteFile(readme, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}
