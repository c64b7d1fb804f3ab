package classify

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter caps what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds, or a date,
// which counts from the server's own Date where it sent one, so that clocks
// that differ do no harm. Some servers send fractions of seconds. Nil if there
// is no wait that can be known.
func retryAfter(c *Capture) *time.Duration {
	text := strings.TrimSpace(c.Header.Get("Retry-After"))
	if text == "" {
		return nil
	}
	wait, ok := secondsOf(text)
	if !ok {
		wait, ok = untilDate(text, c)
	}
	if !ok {
		return nil
	}
	wait = min(max(wait, 0), maxRetryAfter)
	return &wait
}

func secondsOf(text string) (time.Duration, bool) {
	if strings.Trim(text, "+-.0123456789") != "" {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // beyond the range it is infinite
		return 0, false
	}
	seconds = min(max(seconds, 0), maxRetryAfter.Seconds())
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond), true
}

func untilDate(text string, c *Capture) (time.Duration, bool) {
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(c.Header.Get("Date"))
	if err != nil {
		now = c.Received
	}
	if now.IsZero() {
		return 0, false
	}
	return at.Sub(now), true
}
