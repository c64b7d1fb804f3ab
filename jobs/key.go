package jobs

import "context"

// Key returns the idempotency key under which a job's call was sent; "" if it
// had none, or the key of the state directory is another now.
func (j *Journal) Key(ctx context.Context, job Job) (string, error) {
	sec, err := j.secrets(ctx)
	if err != nil {
		return "", err
	}
	if key := sec.keyFor(&job); key != "" {
		return key, nil
	}
	var key string
	if len(job.SealedKey) == 0 || sec.open(job.Handle, job.SealedKey, &key) != nil {
		return "", nil
	}
	return key, nil
}
