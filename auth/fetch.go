package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	fetchTimeout = 10 * time.Second // one request for a document, all redirects included
	postTimeout  = 30 * time.Second // one registration, token or device request
	maxDocument  = 1 << 20          // bytes of one document
	maxRedirects = 3                // for documents; nothing else follows any
)

// A caller makes the requests of this package. None of them carries a configured
// header or a cookie: those are for the upstream's origin only.
type caller struct {
	transport http.RoundTripper
	rule      addressRule
}

// errAbsent says that there is no such document: the next place may have it.
var errAbsent = errors.New("not there")

// get fetches one JSON document. An answer outside 2xx and one that is no JSON
// at all (servers of web pages answer every path) wrap errAbsent.
func (c caller) get(ctx context.Context, document string, u *url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: not a valid URL", document)
	}
	req.Header.Set("Accept", "application/json")
	client := http.Client{Transport: c.transport, CheckRedirect: c.redirect}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, reason(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %w", document, resp.StatusCode, errAbsent)
	}
	body, err := readAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	if looksLikePage(resp.Header, body) {
		return nil, fmt.Errorf("%s: a web page instead of JSON: %w", document, errAbsent)
	}
	return body, nil
}

func (c caller) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("redirected from https to http")
	}
	_, err := c.rule.check(req.URL.String())
	return err
}

// An answer is the response to a POST.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// post sends body once. Redirects are not followed: a token request that is
// sent on would hand its secrets to another address. GetBody is removed because
// net/http would otherwise repeat a request on its own, and a refresh token or
// a code that arrives twice is taken for a stolen one.
func (c caller) post(ctx context.Context, document string, u *url.URL, h http.Header, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("%s: not a valid URL", document)
	}
	req.GetBody = nil
	req.Header = h.Clone()
	req.Header.Set("Accept", "application/json")
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w: %w", document, ErrUnavailable, reason(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return answer{}, fmt.Errorf("%s: the server answers with a redirect (status %d), which is not followed", document, resp.StatusCode)
	}
	got, err := readAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w: %w", document, ErrUnavailable, err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: got}, nil
}

func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("the answer broke off: %w", reason(err))
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxDocument)
	}
	return body, nil
}

// reason removes the URL from an error of net/http: it may hold secrets.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

func looksLikePage(h http.Header, body []byte) bool {
	if t, _, err := mime.ParseMediaType(h.Get("Content-Type")); err == nil && (t == "text/html" || t == "application/xhtml+xml") {
		return true
	}
	return !strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 512)])), "{")
}
