package authtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// A Browser approves everything: it opens a page and follows its redirects to
// the callback. It records the addresses it was given.
type Browser struct {
	mu     sync.Mutex
	opened []string
}

// Open opens a page as a person's browser would, in the background.
func (b *Browser) Open(_ context.Context, address string) error {
	b.mu.Lock()
	b.opened = append(b.opened, address)
	b.mu.Unlock()
	go func() { _, _ = Visit(address) }()
	return nil
}

// Opened returns the addresses that were opened.
func (b *Browser) Opened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.opened...)
}

// Visit fetches a page and follows redirects; it returns the last status.
func Visit(address string) (int, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return 0, fmt.Errorf("visit: %w", err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Approve is a person whose browser cannot reach this machine: it returns the
// address that a page redirects to.
func Approve(page string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	req, err := http.NewRequest(http.MethodGet, page, nil)
	if err != nil {
		return "", fmt.Errorf("approve: %w", err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", fmt.Errorf("approve: %w", err)
	}
	defer resp.Body.Close()
	if to := resp.Header.Get("Location"); to != "" {
		return to, nil
	}
	return "", fmt.Errorf("approve: status %d and no redirect", resp.StatusCode)
}
