package jobs

import "context"

// File files all records, whether or not they still need somebody.
func (j *Journal) File(ctx context.Context) error {
	return j.update(ctx, func(t *txn) error {
		t.file(every)
		return nil
	})
}
