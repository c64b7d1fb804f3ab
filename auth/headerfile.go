package auth

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxHeaderFile bounds a header file, in bytes.
const maxHeaderFile = 64 << 10

// ReadHeaderFile reads one "Name: value" a line. Empty lines and lines that
// begin with # are skipped; values are taken literally. On Unix a file that
// group or others can read is refused. Errors name file and line, never a value.
func ReadHeaderFile(path string) ([]Header, error) {
	text, err := readPrivate(path, maxHeaderFile)
	if err != nil {
		return nil, fmt.Errorf("header file: %w", err)
	}
	var headers []Header
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxHeaderFile+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // editors on Windows begin files with it
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		h, err := literalHeader(line)
		if err != nil {
			return nil, fmt.Errorf("header file %q, line %d: %w", path, n, err)
		}
		headers = append(headers, h)
	}
	return headers, lines.Err()
}

func literalHeader(line string) (Header, error) {
	name, value, err := splitHeader(line)
	if err != nil {
		return Header{}, err
	}
	if _, rest, found := strings.Cut(value, "${"); found {
		if v, _, err := variable(rest); err == nil {
			return Header{}, fmt.Errorf("header %s: the value holds ${%s}, and variables are not replaced in a header file; use --header", name, v)
		}
	}
	if err := checkPlaceholder(value); err != nil {
		return Header{}, fmt.Errorf("header %s: %w", name, err)
	}
	return newHeader(name, value)
}

// ReadSecretFile reads a secret, such as a client secret, from a file that holds
// nothing else; blanks and line breaks around it are dropped. On Unix a file that
// group or others can read is refused.
func ReadSecretFile(path string) (Secret, error) {
	text, err := readPrivate(path, maxHeaderFile)
	if err != nil {
		return Secret{}, fmt.Errorf("secret file: %w", err)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return Secret{}, fmt.Errorf("secret file: %q is empty", path)
	}
	return NewSecret(text), nil
}

// readPrivate reads a file of at most limit bytes that belongs to the user alone.
func readPrivate(path string, limit int64) (string, error) {
	// Opening a pipe that nobody writes to would block for ever.
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%q is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); !private(mode) {
		return "", fmt.Errorf("%q can be read by others (mode %04o); run: chmod 600 %q", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(text)) > limit {
		return "", fmt.Errorf("%q is larger than %d bytes", path, limit)
	}
	return string(text), nil
}
