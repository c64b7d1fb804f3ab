package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// Names of eras in the state directory.
const (
	legacyEraName = "legacy"
	modernEraName = "modern"
	sseEraName    = "sse" // legacy, over HTTP+SSE
)

// An eraCache remembers the era of one server URL, path included, across
// processes: 2026-07-28, versioning, "Backward Compatibility" lets a client
// persist it. Losing it costs one probe.
type eraCache struct{ file string }

func newEraCache(stateDir, url string) eraCache {
	if stateDir == "" {
		return eraCache{}
	}
	return eraCache{filepath.Join(stateDir, "eras", shortHash(url))}
}

func (c eraCache) get() string {
	if c.file == "" {
		return ""
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (c eraCache) set(name string) {
	if c.file != "" && c.get() != name {
		writeState(c.file, []byte(name+"\n")) // a lost write costs one probe
	}
}

func (c eraCache) forget() {
	if c.file != "" {
		os.Remove(c.file)
	}
}

// shortHash names a file after something that may hold any character.
func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// writeState replaces a file of the state directory: readers see the old
// content or the new, also when we are killed in between.
func writeState(name string, content []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
