package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	commandTimeout   = 30 * time.Second // a token command is ended after this time
	commandWaitDelay = time.Second      // then its pipes are closed, whoever still holds them
	maxCommandOutput = 64 << 10         // bytes of a token command's output
)

// A Command is a program with its arguments. It is started directly; no shell
// ever sees it.
type Command struct{ argv []string }

// ParseCommand splits s at blanks. Between single quotes everything is literal;
// between double quotes everything but \" (a double quote). Outside of quotes \"
// is a double quote as well, and any other backslash is itself, so that paths of
// Windows need no doubling. Variables, globs and operators mean nothing.
func ParseCommand(s string) (Command, error) {
	argv, err := splitCommand(s)
	if err != nil {
		return Command{}, err
	}
	if len(argv) == 0 || argv[0] == "" {
		return Command{}, errors.New("command: it is empty")
	}
	return Command{argv: argv}, nil
}

func splitCommand(s string) ([]string, error) {
	var argv []string
	var word strings.Builder
	var quote rune // the quote that is open, or 0
	inWord := false
	runes := []rune(s)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote != '\'' && r == '\\' && i+1 < len(runes) && runes[i+1] == '"':
			word.WriteByte('"')
			inWord = true
			i++
		case r == 0:
			return nil, errors.New("command: it holds a zero byte")
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case quote == 0 && unicode.IsSpace(r):
			if inWord {
				argv = append(argv, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("command: a quote (%c) is not closed", quote)
	}
	if inWord {
		argv = append(argv, word.String())
	}
	return argv, nil
}

// A bearerToken is a token to present and the time until which it is good; the
// zero time means that nobody said.
type bearerToken struct {
	value  Secret
	expiry time.Time
}

// run starts the command and reads the token from its output. Neither output
// ever becomes part of an error: both may hold secrets.
func (c Command) run(ctx context.Context) (bearerToken, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.WaitDelay = commandWaitDelay
	killGroup(cmd)
	out := &boundedBuffer{limit: maxCommandOutput}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return bearerToken{}, fmt.Errorf("token command %q: no answer within %v; it must not ask questions", c.argv[0], commandTimeout)
	case ctx.Err() != nil:
		return bearerToken{}, context.Cause(ctx)
	case err != nil:
		return bearerToken{}, fmt.Errorf("token command %q: %w; run it by hand to see what it says", c.argv[0], err)
	case out.full:
		return bearerToken{}, fmt.Errorf("token command %q: more than %d bytes of output", c.argv[0], maxCommandOutput)
	}
	token, err := parseCommandOutput(out.kept.Bytes(), time.Now())
	if err != nil {
		return bearerToken{}, fmt.Errorf("token command %q: %w", c.argv[0], err)
	}
	return token, nil
}

// commandOutput holds the names that usual tools print.
type commandOutput struct {
	AccessToken *string        `json:"access_token"`
	Token       *string        `json:"token"`
	ExpiresIn   jsontext.Value `json:"expires_in"`
	ExpiresAt   jsontext.Value `json:"expiresAt"`
	ExpiresAt2  jsontext.Value `json:"expires_at"`
}

// parseCommandOutput reads a bare token, or a JSON object with access_token or
// token, and expires_in (seconds) or expiresAt (RFC 3339, or seconds since 1970).
func parseCommandOutput(out []byte, now time.Time) (bearerToken, error) {
	text := strings.TrimSpace(string(out))
	if text == "" {
		return bearerToken{}, errors.New("its output is empty")
	}
	if !strings.HasPrefix(text, "{") {
		value, err := checkToken("output", text)
		return bearerToken{value: value}, err
	}
	var o commandOutput
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return bearerToken{}, describeJSON("output", err)
	}
	raw := o.AccessToken
	if raw == nil {
		raw = o.Token
	}
	if raw == nil {
		return bearerToken{}, errors.New(`its output is a JSON object without "access_token" or "token"`)
	}
	value, err := checkToken("output", *raw)
	if err != nil {
		return bearerToken{}, err
	}
	expiry, err := o.expiry(now)
	return bearerToken{value: value, expiry: expiry}, err
}

func (o commandOutput) expiry(now time.Time) (time.Time, error) {
	if present(o.ExpiresIn) {
		return expiresIn("output", o.ExpiresIn, now)
	}
	at := o.ExpiresAt
	if !present(at) {
		at = o.ExpiresAt2
	}
	if !present(at) {
		return time.Time{}, nil
	}
	if at.Kind() == '"' {
		var s string
		if json.Unmarshal(at, &s) == nil {
			if t, err := time.Parse(time.RFC3339, s); err == nil {
				return t, nil
			}
		}
	}
	if seconds, ok := number(at); ok && seconds > 0 && seconds < 1e11 {
		return time.Unix(int64(seconds), 0), nil
	}
	return time.Time{}, errors.New(`output: field "expiresAt" is neither a time (RFC 3339) nor seconds since 1970`)
}

// A boundedBuffer keeps the first bytes written to it and forgets the rest.
// It does not embed its buffer: io.Copy would find ReadFrom and pass the bound.
type boundedBuffer struct {
	kept  bytes.Buffer
	limit int
	full  bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.kept.Len()
	if len(p) > room {
		b.full = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}
