package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

const (
	keyringTimeout = time.Second // a keyring that is slower counts as absent
	keyringService = "mcpbridge"
)

// A keyRing keeps one small secret per name.
type keyRing interface {
	get(name string) (string, error) // errNoSecret if there is none
	set(name, secret string) error
}

var (
	errNoSecret  = errors.New("the keyring holds no key")
	errNoKeyring = errors.New("no keyring answers")
)

// osKeyring is the keyring of the operating system. It holds the sealing key
// only: tokens are larger than what Windows and macOS take.
type osKeyring struct{}

func (osKeyring) get(name string) (string, error) {
	if !keyringReachable() {
		return "", errNoKeyring
	}
	return inTime(func() (string, error) {
		secret, err := keyring.Get(keyringService, name)
		if errors.Is(err, keyring.ErrNotFound) {
			return "", errNoSecret
		}
		return secret, err
	})
}

func (osKeyring) set(name, secret string) error {
	if !keyringReachable() {
		return errNoKeyring
	}
	_, err := inTime(func() (string, error) { return "", keyring.Set(keyringService, name, secret) })
	return err
}

// inTime waits at most keyringTimeout for f. The call behind it cannot be
// cancelled: a keyring that asks its user keeps one goroutine until it is
// answered.
func inTime(f func() (string, error)) (string, error) {
	type outcome struct {
		secret string
		err    error
	}
	ctx, cancel := context.WithTimeout(context.Background(), keyringTimeout)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		secret, err := f()
		done <- outcome{secret, err}
	}()
	select {
	case o := <-done:
		if o.err != nil && !errors.Is(o.err, errNoSecret) {
			return "", fmt.Errorf("%w: %w", errNoKeyring, o.err)
		}
		return o.secret, o.err
	case <-ctx.Done():
		return "", fmt.Errorf("%w within %v", errNoKeyring, keyringTimeout)
	}
}
