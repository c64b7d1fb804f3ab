package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// A program is a token command with the token it gave last.
type program struct {
	command Command
	runs    singleflight.Group

	mu     sync.Mutex // guards what follows
	last   bearerToken
	got    time.Time
	serial int64 // grows with each run
}

// token returns the last token, or runs the command if there is none or its end
// is near.
func (p *program) token(ctx context.Context) (Secret, int64, error) {
	p.mu.Lock()
	token, serial, r := p.last, p.serial, record{Expiry: p.last.expiry, Obtained: p.got}
	p.mu.Unlock()
	if serial > 0 && !r.due(time.Now()) {
		return token.value, serial, nil
	}
	token, serial, err := p.run(ctx)
	return token.value, serial, err
}

type programRun struct {
	token  bearerToken
	serial int64
}

// run runs the command once for all who wait.
func (p *program) run(ctx context.Context) (bearerToken, int64, error) {
	result := p.runs.DoChan("run", func() (any, error) {
		token, err := p.command.run(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.serial++
		p.last, p.got = token, time.Now()
		return programRun{token, p.serial}, nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return bearerToken{}, 0, r.Err
		}
		got, _ := r.Val.(programRun)
		return got.token, got.serial, nil
	case <-ctx.Done():
		return bearerToken{}, 0, context.Cause(ctx)
	}
}

// refused runs the command again, unless that has happened since the refused
// request was sent.
func (p *program) refused(ctx context.Context, used int64) Decision {
	p.mu.Lock()
	before, serial := p.last, p.serial
	p.mu.Unlock()
	if serial > used {
		return Decision{Action: Again, Why: "the token command gave a new token meanwhile"}
	}
	token, _, err := p.run(ctx)
	switch {
	case err != nil:
		return stop(err.Error())
	case token.value.Reveal() == before.value.Reveal():
		return stop("the server refuses the token, and the token command gives the same one again")
	}
	return Decision{Action: Again, Why: "the token command gave a new token"}
}
