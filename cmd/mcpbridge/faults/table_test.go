package faults

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	beginMark = "<!-- faults:begin -->"
	endMark   = "<!-- faults:end -->"
)

// longTable is every cell, as it was.
func longTable(cells []cell) string {
	var b strings.Builder
	b.WriteString("| fault | server | class | deliveries | effects in the ledger | what the host was told |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range cells {
		server := c.era.String()
		if c.replicas > 1 {
			server += ", two replicas, host of the other era"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %s |\n", c.fault.name, server, c.class.name, c.count(), c.effects, c.said.head)
	}
	return b.String()
}

// count is the deliveries, with what never reached the server told apart.
func (c cell) count() string {
	if c.claimed > c.deliveries {
		return fmt.Sprintf("%d of %d", c.deliveries, c.claimed)
	}
	return fmt.Sprint(c.deliveries)
}

// A row of the short table: all faults with which the same comes out.
type row struct {
	faults  []string
	results []string // by class
}

// shortTable groups faults with which the same came out on every server.
func shortTable(cells []cell) string {
	rows := shortRows(cells)
	var b strings.Builder
	b.WriteString("| What happens | read | idempotent | presumed read | write |\n| --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", names(r.faults), strings.Join(r.results, " | "))
	}
	return b.String()
}

// names joins the names of faults; plain statuses follow each other as numbers.
func names(faults []string) string {
	status := regexp.MustCompile(`^HTTP (\d+)$`)
	var out strings.Builder
	after := false // a plain status
	for i, f := range faults {
		plain := status.FindStringSubmatch(f)
		switch {
		case i == 0:
			out.WriteString(f)
		case plain != nil && after:
			out.WriteString(", " + plain[1])
		default:
			out.WriteString("; " + f)
		}
		after = plain != nil
	}
	return out.String()
}

func shortRows(cells []cell) []row {
	var rows []row
	for _, f := range allFaults() {
		if f.short == "-" {
			continue
		}
		for _, v := range variants(cells, f) {
			i := slices.IndexFunc(rows, func(r row) bool { return slices.Equal(r.results, v.results) })
			if i < 0 {
				rows = append(rows, v)
				continue
			}
			rows[i].faults = append(rows[i].faults, v.faults...)
		}
	}
	return rows
}

// variants are the different results of one fault, with the eras they hold for
// where there is more than one.
func variants(cells []cell, f fault) []row {
	byEra := map[string][]string{}
	var eras []string
	for _, era := range f.eras() {
		var results []string
		for _, c := range cells {
			if c.fault.name == f.name && c.era == era && c.replicas == 1 {
				results = append(results, c.short())
			}
		}
		if len(results) > 0 {
			byEra[era.String()] = results
			eras = append(eras, era.String())
		}
	}
	if len(eras) == 2 && slices.Equal(byEra[eras[0]], byEra[eras[1]]) {
		eras = eras[:1]
	}
	var out []row
	for _, era := range eras {
		name := cmp.Or(f.short, f.name)
		if len(eras) > 1 {
			name += " (" + era + " server)"
		}
		out = append(out, row{[]string{name}, byEra[era]})
	}
	return out
}

// short is a cell in few words.
func (c cell) short() string {
	sent := "sent once"
	if c.deliveries == 0 {
		sent = "not received"
	} else if c.deliveries > 1 {
		sent = fmt.Sprintf("sent %d times", c.deliveries)
		if c.deliveries == 2 {
			sent = "sent twice"
		}
	}
	if c.effects > 0 {
		sent += fmt.Sprintf(", %d effect", c.effects)
		if c.effects > 1 {
			sent += "s"
		}
	}
	if c.sight == atAccept { // either may come out, see expect
		return sent + ": " + notSent + " or " + unproven(c.class)
	}
	return sent + ": " + c.said.head
}

// update writes the table between the markers of README.md; where README.md
// has none, to the file that FAULTS_TABLE names.
func update(t *testing.T, table string) {
	text := beginMark + "\n" + table + endMark + "\n"
	name := filepath.Join("..", "..", "..", "README.md")
	readme, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	from, to := bytes.Index(readme, []byte(beginMark)), bytes.Index(readme, []byte(endMark+"\n"))
	if from >= 0 && to > from {
		whole := string(readme[:from]) + text + string(readme[to+len(endMark)+1:])
		err = os.WriteFile(name, []byte(whole), 0o644)
	} else if other := os.Getenv("FAULTS_TABLE"); other != "" {
		err = os.WriteFile(other, []byte(text), 0o644)
	} else {
		t.Fatalf("README.md has no lines %s and %s", beginMark, endMark)
	}
	if err != nil {
		t.Fatal(err)
	}
}
