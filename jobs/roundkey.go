package jobs

import "context"

// RoundKey returns the key of the store under which a bridge seals what it
// gives to hosts to bring back. It is the same for every process of the store.
func (j *Journal) RoundKey(ctx context.Context) ([]byte, error) {
	sec, err := j.secrets(ctx)
	if err != nil {
		return nil, err
	}
	p := sec.print("round")
	return p[:], nil
}
