package retry

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// A Policy bounds the further deliveries of one exchange.
type Policy struct {
	Retries int           // deliveries after the first
	First   time.Duration // wait before the first of them, on average
	Max     time.Duration // longest wait
}

// Defaults returns the policy that holds where nothing is configured.
func Defaults() Policy {
	return Policy{Retries: 2, First: 200 * time.Millisecond, Max: 10 * time.Second}
}

// Waits returns a function that gives the wait before each further delivery of
// one exchange: exponential, with jitter of half the wait to both sides, and
// without an end of its own (backoff's would give up after 15 minutes).
func (p Policy) Waits() func() time.Duration {
	var b *backoff.ExponentialBackOff // made when it is needed, which is rare
	return func() time.Duration {
		if b == nil {
			b = backoff.NewExponentialBackOff(
				backoff.WithInitialInterval(p.First),
				backoff.WithMaxInterval(p.Max),
				backoff.WithMultiplier(2),
				backoff.WithRandomizationFactor(0.5),
				backoff.WithMaxElapsedTime(0),
			)
		}
		return b.NextBackOff()
	}
}
