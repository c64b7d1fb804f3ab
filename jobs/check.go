package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpbridge/mcpbridge/jobs/store"
)

// maxFindings bounds what Check reports.
const maxFindings = 20

// Check reads the whole journal and reports where it contradicts itself: index
// rows that do not follow from a record, bodies that no record names, records
// that no state allows.
func (j *Journal) Check(ctx context.Context) error {
	return j.view(ctx, func(t *txn) error {
		c := &checker{t: t, rows: make(map[string][]byte)}
		for _, table := range []store.Table{tableRecent, tableJobs} {
			for k, v := range t.tx.Scan(table, nil) {
				c.row(table, k, v)
			}
		}
		for _, table := range []store.Table{tableHandles, tableDue, tableLive, tablePrints, tableBodies} {
			c.table(table)
		}
		for k, v := range t.tx.Scan(tableKeys, nil) {
			if job, ok := t.job(Handle(v)); !ok || string(job.KeyPrint[:]) != string(k) {
				c.find("key %x names job %s, which has another or is gone", k, v)
			}
		}
		for k, v := range t.tx.Scan(tableRounds, nil) {
			if job, ok := t.job(Handle(v)); !ok || string(job.Round[:]) != string(k) &&
				!slices.ContainsFunc(job.UsedRounds, func(p Print) bool { return string(p[:]) == string(k) }) {
				c.find("round %x names job %s, which has another or is gone", k, v)
			}
		}
		for k := range c.rows {
			c.find("no row %q", k)
		}
		return errors.Join(c.findings...)
	})
}

type checker struct {
	t        *txn
	rows     map[string][]byte // wanted, by table and key; taken out when met
	findings []error
}

func (c *checker) find(format string, args ...any) {
	if len(c.findings) < maxFindings {
		c.findings = append(c.findings, fmt.Errorf(format, args...))
	}
}

func (c *checker) want(table store.Table, key, value []byte) {
	c.rows[string(table)+" "+string(key)] = value
}

func (c *checker) row(table store.Table, k, v []byte) {
	read := readFiled
	if table == tableRecent {
		read = readRecent
	}
	r, ok := read(k, v)
	if !ok {
		c.find("row %q of %s is none", k, table)
		return
	}
	job, ok := c.t.job(r.handle())
	s := c.t.before[r.handle()]
	want := job.filedRow(r.text)
	if table == tableRecent {
		want = append(job.appendHead(nil, s.arguments, s.result), r.text...)
	}
	switch {
	case !ok:
		c.find("job %s of %s is not found", r.handle(), table)
	case s.table() != table:
		c.find("job %s is filed and not", r.handle())
	case !bytes.Equal(k, rowKey(&job)) || !bytes.Equal(v, want):
		c.find("row %q of %s is %q, not %q", k, table, v, want)
	default:
		c.job(&job, s)
	}
}

func (c *checker) job(j *Job, s stored) {
	for _, e := range s.rows {
		c.want(e.table, e.key, e.value)
	}
	if key := rowKey(j); s.filed && isIndexed(c.t.tx, key) {
		e := handleEntry(key)
		c.want(e.table, e.key, e.value)
	}
	for _, b := range []struct {
		Body
		suffix string
	}{{j.Arguments, suffixArguments}, {j.Result, suffixResult}} {
		switch in := *s.body(b.suffix); {
		case b.inRow(s.filed):
			if int64(len(in)) != b.Size {
				c.find("job %s has %d bytes of its %d%s in its row", j.Handle, len(in), b.Size, b.suffix)
			}
		case len(in) > 0:
			c.find("job %s has %s in its row", j.Handle, b.suffix)
		case b.Kept && b.Aside == "":
			c.want(tableBodies, bodyKey(j.Handle, b.suffix), nil)
		}
	}
	switch {
	case j.State.Settled() == j.EndedAt.IsZero():
		c.find("job %s is %s and ended at %v", j.Handle, j.State, j.EndedAt)
	case j.Arguments.Kept && !j.keepsArguments():
		c.find("job %s keeps arguments that it may not", j.Handle)
	case j.Result.Kept && j.resultUntil().IsZero():
		c.find("job %s keeps a result that it may not", j.Handle)
	case j.State == OutcomeUnknown && j.Effect == None:
		c.find("job %s is unknown and without effect", j.Handle)
	case !j.Round.IsZero() && c.t.tx.Get(tableRounds, j.Round[:]) == nil:
		c.find("job %s waits for a round that has no row", j.Handle)
	case j.seen() && !j.State.Settled():
		c.find("job %s is %s and its end is known to somebody", j.Handle, j.State)
	}
}

func (c *checker) table(table store.Table) {
	for k, v := range c.t.tx.Scan(table, nil) {
		row := string(table) + " " + string(k)
		want, ok := c.rows[row]
		switch {
		case !ok:
			c.find("row %q follows from no record", row)
		case want != nil && !bytes.Equal(v, want):
			c.find("row %q is %q, not %q", row, v, want)
		}
		delete(c.rows, row)
	}
}
