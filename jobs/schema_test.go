package jobs_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/mcpbridge/mcpbridge/jobs"
	"github.com/mcpbridge/mcpbridge/jobs/store/boltstore"
)

// TestSchemaIsAsDrawn fills a journal with one of everything and compares what
// is in the file with the tree in the package comment.
func TestSchemaIsAsDrawn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	damaged := filepath.Join(dir, "jobs.db")
	if err := os.WriteFile(damaged, []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	oneOfEverything(t, dir)
	drawn, found := drawnSchema(t), dumpedSchema(t, damaged)
	// A clock in doubt comes and goes; the suite of tests makes one.
	found["marks ahead"] = true
	for _, row := range slices.Sorted(maps.Keys(drawn)) {
		if !found[row] {
			t.Errorf("drawn and not found: %s", row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(found)) {
		if !drawn[row] {
			t.Errorf("found and not drawn: %s", row)
		}
	}
}

func oneOfEverything(t *testing.T, dir string) {
	ctx := context.Background()
	j, err := jobs.Open(dir, jobs.Options{}, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(n int, change func(*jobs.Call)) jobs.Job {
		c := numbered(n, 10)
		change(&c)
		b, err := j.Begin(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return b.Job
	}
	must := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	keyed := begin(1, func(c *jobs.Call) { c.Key = "k" })
	must(j.Finish(ctx, keyed.Handle, completed(`{}`)))
	waiting := begin(2, func(*jobs.Call) {})
	must(j.Await(ctx, waiting.Handle, []byte("state")))
	asked := begin(3, func(*jobs.Call) {})
	must(j.Ask(ctx, asked.Handle, jobs.AskCancel, nil))
	for n := range 50 {
		job := begin(10+n, func(*jobs.Call) {})
		must(j.Finish(ctx, job.Handle, completed(`{}`)))
		j.Note(job.Handle, jobs.Note{Told: true})
	}
	if err := j.File(ctx); err != nil {
		t.Fatal(err)
	}
	must(j.Finish(ctx, begin(4, func(*jobs.Call) {}).Handle, completed(`{}`))) // a recent one
	must(j.Prune(ctx))
	if err := j.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// drawnSchema reads the tree in doc.go: "table key" for each row.
func drawnSchema(t *testing.T) map[string]bool {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, ok := strings.Cut(string(doc), "# Schema")
	if !ok {
		t.Fatal("doc.go draws no schema")
	}
	rows, table := make(map[string]bool), ""
	for line := range strings.Lines(tree) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		switch {
		case !ok:
		case !strings.HasPrefix(line, " "):
			table = strings.Fields(line)[0]
		case strings.HasPrefix(line, "    "): // the text of the row above goes on
		default:
			key, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
			rows[table+" "+key] = true
		}
	}
	return rows
}

// dumpedSchema reads a file and names the shape of each key in it.
func dumpedSchema(t *testing.T, path string) map[string]bool {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows := make(map[string]bool)
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(table []byte, b *bolt.Bucket) error {
			n := 0
			err := b.ForEach(func(k, _ []byte) error {
				n++
				rows[fmt.Sprintf("%s %s", table, shape(string(table), k))] = true
				return nil
			})
			if n == 0 {
				t.Errorf("table %s is empty, so it is not tested", table)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

var handleShape = regexp.MustCompile(`job_[a-z2-7]{26}`)

// shape replaces the binary parts of a key by their names.
func shape(table string, k []byte) string {
	var parts []string
	switch table {
	case "jobs", "due", "live", "recent":
		parts, k = []string{"TIME"}, k[8:]
	case "prints":
		parts, k = []string{"PRINT", "TIME"}, k[40:]
	case "keys", "rounds":
		parts, k = []string{"PRINT"}, k[32:]
	}
	text := string(k)
	after := ""
	if table == "asks" {
		text, after = string(k[:len(k)-8]), "N"
	}
	for _, p := range []string{handleShape.ReplaceAllString(text, "HANDLE"), after} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, " ")
}
