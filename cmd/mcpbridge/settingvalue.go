package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/auth"
	"github.com/mcpbridge/mcpbridge/retry"
)

// What follows makes the parse functions of settings.

func text(field func(*options) *string) func(*options, []string) error {
	return func(o *options, v []string) error {
		if strings.TrimSpace(v[0]) == "" || strings.ContainsFunc(v[0], isControl) {
			return errors.New("wants a name without control characters")
		}
		*field(o) = v[0]
		return nil
	}
}

func file(field func(*options) *string) func(*options, []string) error {
	return func(o *options, v []string) (err error) {
		*field(o), err = o.absolute(v[0])
		return err
	}
}

func boolean(field func(*options) *bool) func(*options, []string) error {
	return func(o *options, v []string) (err error) {
		*field(o), err = parseBool(v[0])
		return err
	}
}

func size(field func(*options) *int64) func(*options, []string) error {
	return func(o *options, v []string) (err error) {
		*field(o), err = parseSize(v[0])
		return err
	}
}

// leastLine is the smallest bound of a line, in bytes, with which the bridge can
// say at least that something was too long for it.
const leastLine = 1 << 10

func lineLength(field func(*options) *int64) func(*options, []string) error {
	return func(o *options, v []string) error {
		n, err := parseSize(v[0])
		if err == nil && n < leastLine {
			err = fmt.Errorf("wants at least %d bytes: no message fits otherwise", leastLine)
		}
		*field(o) = n
		return err
	}
}

func duration(field func(*options) *time.Duration) func(*options, []string) error {
	return func(o *options, v []string) (err error) {
		*field(o), err = parseDuration(v[0])
		return err
	}
}

func span(field func(*options) *time.Duration) func(*options, []string) error {
	return func(o *options, v []string) (err error) {
		*field(o), err = parseSpan(v[0])
		return err
	}
}

func patterns(field func(*options) *[]string) func(*options, []string) error {
	return func(o *options, v []string) error {
		for _, glob := range v {
			if err := retry.CheckGlob(glob); err != nil {
				return err
			}
		}
		*field(o) = v
		return nil
	}
}

func oneOf(set func(*options, string), values ...string) func(*options, []string) error {
	return func(o *options, v []string) error {
		if err := checkOneOf(v[0], values...); err != nil {
			return err
		}
		set(o, v[0])
		return nil
	}
}

func checkOneOf(v string, values ...string) error {
	for _, known := range values {
		if v == known {
			return nil
		}
	}
	last := len(values) - 1
	return fmt.Errorf("wants %s or %s", strings.Join(values[:last], ", "), values[last])
}

func parseBool(s string) (bool, error) {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, errors.New("wants true or false")
	}
	return v, nil
}

// parseHeaders checks the form of each header and keeps it for credentials,
// which reads the environment.
func parseHeaders(o *options, v []string) error {
	anything := func(string) (string, bool) { return "x", true }
	for _, header := range v {
		if _, err := auth.ParseHeader(header, anything); err != nil {
			return err
		}
	}
	o.headers = v
	return nil
}

func parseBearerEnv(o *options, v []string) error {
	// What is no name may be the token itself: it is not repeated.
	if !isVariable(v[0]) {
		return errors.New("wants the name of an environment variable that holds the token, not the token itself")
	}
	o.bearerEnv = v[0]
	return nil
}

func parseProxy(o *options, v []string) error {
	if v[0] != "direct" {
		u, err := url.Parse(v[0])
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h" {
			return errors.New("wants direct or a URL such as http://proxy.example:3128")
		}
	}
	o.Proxy = v[0]
	return nil
}

// parseAnswerWithin reads auto, which Config writes as zero, or a duration.
func parseAnswerWithin(to *time.Duration, s string) (err error) {
	if s == "auto" {
		*to = 0
		return nil
	}
	if *to, err = parseSpan(s); err != nil {
		return errors.New("wants auto or a duration above zero, such as 45s")
	}
	return nil
}

// parseDrain reads a duration. Zero means not to wait at all; in Config it
// would mean the default, so that the shortest wait stands for it.
func parseDrain(o *options, v []string) error {
	d, err := parseDuration(v[0])
	o.Drain = max(d, time.Nanosecond)
	return err
}

// parseLinger reads a duration; zero ends open calls with the host.
func parseLinger(o *options, v []string) error {
	d, err := parseDuration(v[0])
	o.linger = &d
	return err
}

func parseDeadlineHeader(o *options, v []string) error {
	// The check for names that a request cannot carry is that of a header.
	if _, err := auth.ParseHeader(v[0]+": 1", func(string) (string, bool) { return "", false }); err != nil || strings.Contains(v[0], ":") {
		return errors.New("wants the name of an HTTP header that the protocol does not use, such as X-Deadline-Ms")
	}
	o.DeadlineHeader = v[0]
	return nil
}

// maxRetries bounds --retries; a server that needs more is down.
const maxRetries = 100

func parseRetries(o *options, v []string) error {
	n, err := strconv.Atoi(v[0])
	if err != nil || n < 0 || n > maxRetries {
		return fmt.Errorf("wants a number from 0 to %d", maxRetries)
	}
	if o.Retries = n; n == 0 {
		o.Retries = -1 // in Config zero means the default
	}
	return nil
}

func parseTrust(o *options, v []string) error {
	trust, err := parseBool(v[0])
	o.DistrustAnnotation = !trust
	return err
}

func parseLogLevel(o *options, v []string) error {
	if err := checkOneOf(v[0], "debug", "info", "warn", "error"); err != nil {
		return err
	}
	return o.log.level.UnmarshalText([]byte(v[0]))
}

func parseHeaderFiles(o *options, v []string) error {
	o.headerFiles = nil
	for _, name := range v {
		path, err := o.absolute(name)
		if err != nil {
			return err
		}
		o.headerFiles = append(o.headerFiles, path)
	}
	return nil
}

// absolute makes a file name independent of the working directory, which a host
// chooses and a bridge may change. A name in config.toml is relative to that
// file.
func (o *options) absolute(name string) (string, error) {
	if name == "" {
		return "", errors.New("wants a file name")
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("wants a file name without ~: the home directory is not known")
		}
		return filepath.Join(home, rest), nil
	}
	if !filepath.IsAbs(name) && o.base != "" {
		return filepath.Join(o.base, name), nil
	}
	return filepath.Abs(name)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
