package jobs

import "context"

// File files all records, whether or not they still need somebody, and brings the
// index of handles up to date.
func (j *Journal) File(ctx context.Context) error {
	return j.update(ctx, func(t *txn) error {
		t.file(every)
		t.index()
		return nil
	})
}
