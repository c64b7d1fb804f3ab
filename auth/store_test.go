package auth

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeRing is a keyring in memory.
type fakeRing struct {
	mu    sync.Mutex
	held  map[string]string
	fault error
}

func (r *fakeRing) get(name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		return "", r.fault
	}
	if s, ok := r.held[name]; ok {
		return s, nil
	}
	return "", errNoSecret
}

func (r *fakeRing) set(name, secret string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		return r.fault
	}
	if r.held == nil {
		r.held = map[string]string{}
	}
	r.held[name] = secret
	return nil
}

func openTest(t *testing.T, dir string, place KeyPlace, ring keyRing) (*Store, *[]string) {
	t.Helper()
	var lines []string
	s, err := OpenStore(dir, place, func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	s.ring = ring
	return s, &lines
}

type entry struct{ Word storedSecret }

func TestSealedEntries(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "auth")
	s, _ := openTest(t, dir, KeyInFile, &fakeRing{})
	if err := s.putSealed("tokens", "a", entry{storedSecret{NewSecret(sample)}}); err != nil {
		t.Fatal(err)
	}
	again, _ := openTest(t, dir, KeyAnywhere, &fakeRing{fault: errNoKeyring})
	var e entry
	if found, err := again.getSealed("tokens", "a", &e); !found || err != nil || e.Word.Reveal() != sample {
		t.Errorf("%v %v %q", found, err, e.Word.Reveal())
	}
	if found, err := again.getSealed("tokens", "b", &e); found || err != nil {
		t.Errorf("missing entry: %v %v", found, err)
	}
	sealed, err := os.ReadFile(filepath.Join(dir, "tokens", "a"))
	if err != nil || bytes.Contains(sealed, []byte(sample)) {
		t.Errorf("in the open: %q, %v", sealed, err)
	}
	checkModes(t, dir)
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What cannot be read is set aside, with a word about it, and counts as nothing.
func TestDamagedEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, lines := openTest(t, dir, KeyInFile, &fakeRing{})
	damage := map[string]func([]byte) []byte{
		"cut":      func(b []byte) []byte { return b[:len(b)-1] },
		"flipped":  func(b []byte) []byte { b[len(b)-3] ^= 1; return b },
		"empty":    func([]byte) []byte { return nil },
		"foreign":  func([]byte) []byte { return []byte(`{"Word":"` + sample + `"}`) },
		"other":    func([]byte) []byte { b, _ := seal(newKey(), "tokens/other", []byte(`{}`)); return b },
		"swapped":  func([]byte) []byte { b, _ := seal(s.key, "tokens/x", []byte(`{}`)); return b },
		"nonsense": func([]byte) []byte { b, _ := seal(s.key, "tokens/nonsense", []byte(`[`+sample)); return b },
	}
	for name, f := range damage {
		if err := s.putSealed("tokens", name, entry{storedSecret{NewSecret(sample)}}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "tokens", name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(content), 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(*lines)
		var e entry
		if found, err := s.getSealed("tokens", name, &e); found || err != nil {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
		if len(*lines) != before+1 || strings.Contains((*lines)[before], sample) {
			t.Errorf("%s: warnings %q", name, (*lines)[before:])
		}
		if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 {
			t.Errorf("%s: set aside %v, %v", name, aside, err)
		}
	}
}

// B136: wider modes are narrowed, links are refused.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // neither modes nor links as meant here
	}
	dir := filepath.Join(t.TempDir(), "auth")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "tokens"), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	s, _ := openTest(t, dir, KeyInFile, &fakeRing{})
	if err := s.putSealed("tokens", "a", entry{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "tokens", "a"), 0o644); err != nil {
		t.Fatal(err)
	}
	var e entry
	if found, err := s.getSealed("tokens", "a", &e); !found || err != nil {
		t.Errorf("%v %v", found, err)
	}
	checkModes(t, dir)
	target := filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(target, []byte("x"), 0o600), os.Symlink(target, filepath.Join(dir, "tokens", "link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.getSealed("tokens", "link", &e); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("read through a link: %v", err)
	}
	if err := s.putSealed("tokens", "link", e); err == nil {
		t.Error("wrote over a link")
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "x" {
		t.Errorf("the target is now %q, %v", content, err)
	}
}

func TestTwoWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var writers sync.WaitGroup
	for range 4 {
		s, _ := openTest(t, dir, KeyInFile, &fakeRing{})
		writers.Go(func() {
			for range 25 {
				var e entry
				err := s.putSealed("tokens", "a", entry{storedSecret{NewSecret(sample)}})
				found, readErr := s.getSealed("tokens", "a", &e)
				if err != nil || readErr != nil || !found || e.Word.Reveal() != sample {
					t.Errorf("%v %v %v", err, readErr, found)
				}
			}
		})
	}
	writers.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, "tokens", ".new-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestKeyPlaces(t *testing.T) {
	t.Parallel()
	put := func(dir string, place KeyPlace, ring keyRing) error {
		s, _ := openTest(t, dir, place, ring)
		return s.putSealed("tokens", "a", entry{})
	}
	place := func(dir string) string {
		b, err := os.ReadFile(filepath.Join(dir, "key.place"))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	t.Run("a keyring answers", func(t *testing.T) {
		dir, ring := t.TempDir(), &fakeRing{}
		if err := put(dir, KeyAnywhere, ring); err != nil || place(dir) != "keyring" || len(ring.held) != 1 {
			t.Errorf("%v, %s, %d keys", err, place(dir), len(ring.held))
		}
		if _, err := os.Stat(filepath.Join(dir, "seal.key")); err == nil {
			t.Error("the key is in a file too")
		}
		ring.fault = errNoKeyring
		if err := put(dir, KeyAnywhere, ring); err == nil || !strings.Contains(err.Error(), "unlock it") {
			t.Errorf("a locked keyring: %v", err)
		}
		ring.fault = nil
		if err := put(dir, KeyInFile, ring); err == nil || !strings.Contains(err.Error(), "kept in the keyring") {
			t.Errorf("another place: %v", err)
		}
		ring.held = nil
		s, lines := openTest(t, dir, KeyAnywhere, ring)
		var e entry
		if found, err := s.getSealed("tokens", "a", &e); found || err != nil || len(*lines) != 2 {
			t.Errorf("an emptied keyring: %v %v %q", found, err, *lines)
		}
	})
	t.Run("none answers", func(t *testing.T) {
		dir, ring := t.TempDir(), &fakeRing{fault: errNoKeyring}
		if err := put(dir, KeyAnywhere, ring); err != nil || place(dir) != "file" {
			t.Errorf("%v, %s", err, place(dir))
		}
		ring.fault = nil // it answers later: the choice stays
		if err := put(dir, KeyAnywhere, ring); err != nil || place(dir) != "file" || len(ring.held) != 0 {
			t.Errorf("%v, %s", err, place(dir))
		}
	})
	t.Run("a keyring is demanded", func(t *testing.T) {
		if err := put(t.TempDir(), KeyInKeyring, &fakeRing{fault: errNoKeyring}); err == nil {
			t.Error("no error")
		}
	})
	if _, err := OpenStore("x", "cloud", nil); err == nil {
		t.Error("an unknown place was accepted")
	}
}

func TestSlowKeyring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		began := time.Now()
		_, err := inTime(func() (string, error) { <-release; return "late", nil })
		if !errors.Is(err, errNoKeyring) || time.Since(began) != keyringTimeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestOpeningCostsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "auth")
	openTest(t, dir, KeyAnywhere, &fakeRing{fault: errors.New("touched")})
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}
