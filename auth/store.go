package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"
)

// KeyPlace says where the key that seals the token files is kept.
type KeyPlace string

const (
	KeyAnywhere  KeyPlace = ""        // the keyring if one answers, else a file
	KeyInKeyring KeyPlace = "keyring" // --token-store keyring
	KeyInFile    KeyPlace = "file"    // --token-store file
)

// lockWait is the pause between two tries for a lock of another process.
const lockWait = 50 * time.Millisecond

// A Store keeps tokens, registrations, sign-ins under way and the settings of
// signed-in servers below one directory, for all processes of one user:
//
//	key.place      "keyring" or "file": where the sealing key is; written once
//	seal.key       the sealing key, if it is in a file
//	principal.key  the key of principal ids
//	servers/       settings of a server (no secrets), JSON
//	tokens/        one sealed record each: issuer, client, resource, principal
//	clients/       one sealed dynamic registration each: issuer, redirect host
//	pending/       one sealed sign-in under way each: server, principal
//	locks/         lock files
//
// Directories are 0700, files 0600, and every write replaces a file whole.
// Opening a Store reads and writes nothing.
type Store struct {
	dir  string
	want KeyPlace
	ring keyRing
	warn func(string)

	replace func(path string, content []byte) error // replaceFile, or in tests a disk that fails

	mu    sync.Mutex // guards both keys
	key   []byte     // the sealing key once known
	idKey []byte     // the key of principal ids once known
}

// OpenStore returns the store below dir. place is what the user wants; once a
// store has a key, asking for another place is an error at first use. warn gets
// one line for each damaged entry that was set aside.
func OpenStore(dir string, place KeyPlace, warn func(string)) (*Store, error) {
	switch place {
	case KeyAnywhere, KeyInKeyring, KeyInFile:
	default:
		return nil, fmt.Errorf("token store: %q is neither keyring nor file", string(place))
	}
	if warn == nil {
		warn = func(string) {}
	}
	return &Store{dir: dir, want: place, ring: osKeyring{}, warn: warn, replace: replaceFile}, nil
}

func (s *Store) path(kind, name string) string { return filepath.Join(s.dir, kind, name) }

// sealKey returns the sealing key, making it at first use.
func (s *Store) sealKey() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	unlock, err := s.lock(context.Background(), "key")
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.key, err = s.loadKey()
	return s.key, err
}

// loadKey runs under the lock "key", so that two processes never make two keys.
func (s *Store) loadKey() ([]byte, error) {
	chosen, err := readOwn(filepath.Join(s.dir, "key.place"))
	if missing(err) {
		return s.chooseKey()
	}
	if err != nil {
		return nil, fmt.Errorf("token store: %w", err)
	}
	place := KeyPlace(chosen)
	if s.want != KeyAnywhere && s.want != place {
		return nil, fmt.Errorf("token store: the key of %q is kept in the %s; leave out --token-store, or remove the directory and sign in again", s.dir, place)
	}
	if place == KeyInFile {
		return s.fileKey()
	}
	text, err := s.ring.get(s.ringName())
	if errors.Is(err, errNoSecret) {
		// The keyring was emptied: what was sealed is lost, signing in again is not.
		s.warn("token store: the keyring no longer holds the key; stored sign-ins cannot be read any more")
		return s.makeKey(KeyInKeyring)
	}
	if err != nil {
		return nil, fmt.Errorf("token store: %w; unlock it, or remove %q and sign in again with --token-store file", err, s.dir)
	}
	return decodeKey(text)
}

func (s *Store) chooseKey() ([]byte, error) {
	if s.want != KeyInFile {
		key, err := s.makeKey(KeyInKeyring)
		if err == nil || s.want == KeyInKeyring {
			return key, err
		}
	}
	return s.makeKey(KeyInFile)
}

// makeKey stores a new key and then the choice. A crash in between leaves a key
// that nothing was sealed with.
func (s *Store) makeKey(place KeyPlace) ([]byte, error) {
	key := newKey()
	var err error
	if place == KeyInKeyring {
		err = s.ring.set(s.ringName(), encodeKey(key))
	} else {
		err = s.replace(filepath.Join(s.dir, "seal.key"), []byte(encodeKey(key)))
	}
	if err == nil {
		err = s.replace(filepath.Join(s.dir, "key.place"), []byte(place))
	}
	if err != nil {
		return nil, fmt.Errorf("token store: make a key: %w", err)
	}
	return key, nil
}

func (s *Store) fileKey() ([]byte, error) {
	text, err := readOwn(filepath.Join(s.dir, "seal.key"))
	if err != nil {
		return nil, fmt.Errorf("token store: read the key: %w", err)
	}
	key, err := decodeKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("token store: %q: %w", filepath.Join(s.dir, "seal.key"), err)
	}
	return key, nil
}

// ringName tells the keys of several state directories apart.
func (s *Store) ringName() string {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		dir = s.dir
	}
	return "seal-" + fileName(dir)
}

// principalKey returns the key that ids of accounts are made with.
func (s *Store) principalKey() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idKey != nil {
		return s.idKey, nil
	}
	key, err := s.loadPrincipalKey()
	if err == nil {
		s.idKey = key
	}
	return key, err
}

func (s *Store) loadPrincipalKey() ([]byte, error) {
	path := filepath.Join(s.dir, "principal.key")
	unlock, err := s.lock(context.Background(), "principal")
	if err != nil {
		return nil, err
	}
	defer unlock()
	text, err := readOwn(path)
	if missing(err) {
		key := newKey()
		if err := s.replace(path, []byte(encodeKey(key))); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotKept, err)
		}
		return key, nil
	}
	var key []byte
	if err == nil {
		key, err = decodeKey(string(text))
	}
	if err != nil {
		return nil, fmt.Errorf("principal key %q: %w; mend it, or move it away (accounts that are known by it get new ids then)", path, err)
	}
	return key, nil
}

// errNotKept says that there is no principal key yet and that none can be written.
var errNotKept = errors.New("principal key: it cannot be written")

// lock takes a lock of all processes. It ends with the process that holds it.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	l, err := s.newLock(name)
	if err != nil {
		return nil, err
	}
	if _, err := l.TryLockContext(ctx, lockWait); err != nil {
		return nil, fmt.Errorf("lock %q: %w", l.Path(), err)
	}
	return func() { _ = l.Unlock() }, nil
}

// tryLock is lock without waiting; ok is false if another process holds it.
func (s *Store) tryLock(name string) (unlock func(), ok bool, err error) {
	l, err := s.newLock(name)
	if err != nil {
		return nil, false, err
	}
	if ok, err = l.TryLock(); err != nil || !ok {
		return nil, false, err
	}
	return func() { _ = l.Unlock() }, true, nil
}

func (s *Store) newLock(name string) (*flock.Flock, error) {
	dir := filepath.Join(s.dir, "locks")
	if err := errors.Join(makePrivateDir(s.dir), makePrivateDir(dir)); err != nil {
		return nil, fmt.Errorf("token store: %w", err)
	}
	return flock.New(filepath.Join(dir, name+".lock"), flock.SetPermissions(0o600)), nil
}

// putSealed stores v under kind and name.
func (s *Store) putSealed(kind, name string, v any) error {
	key, err := s.sealKey()
	if err != nil {
		return err
	}
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	sealed, err := seal(key, kind+"/"+name, content)
	if err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return s.put(kind, name, sealed)
}

// getSealed reads what putSealed stored; found is false if there is nothing. A
// damaged entry is set aside and counts as nothing.
func (s *Store) getSealed(kind, name string, v any) (found bool, err error) {
	sealed, found, err := s.get(kind, name)
	if !found || err != nil {
		return false, err
	}
	key, err := s.sealKey()
	if err != nil {
		return false, err
	}
	content, err := unseal(key, kind+"/"+name, sealed)
	if err == nil {
		err = json.Unmarshal(content, v)
	}
	if err != nil {
		return false, s.setAside(kind, name, err)
	}
	return true, nil
}

func (s *Store) putPlain(kind, name string, v any) error {
	content, err := json.Marshal(v, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return s.put(kind, name, content)
}

func (s *Store) getPlain(kind, name string, v any) (found bool, err error) {
	content, found, err := s.get(kind, name)
	if !found || err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return false, s.setAside(kind, name, err)
	}
	return true, nil
}

func (s *Store) put(kind, name string, content []byte) error {
	dir := filepath.Join(s.dir, kind)
	if err := errors.Join(makePrivateDir(s.dir), makePrivateDir(dir)); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	if err := s.replace(s.path(kind, name), content); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}

func (s *Store) get(kind, name string) (content []byte, found bool, err error) {
	content, err = readOwn(s.path(kind, name))
	if missing(err) || errors.Is(err, fs.ErrPermission) {
		return nil, false, nil // a server that asks for nothing is reached all the same
	}
	if err != nil {
		return nil, false, fmt.Errorf("token store: %w", err)
	}
	return content, true, nil
}

// names lists the entries of a kind.
func (s *Store) names(kind string) ([]string, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, kind))
	if err != nil && !missing(err) {
		return nil, fmt.Errorf("token store: %w", err)
	}
	var names []string
	for _, f := range files {
		if !strings.Contains(f.Name(), ".") { // else half-written, or set aside
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// stamp is when an entry was written last; the zero time if there is none.
func (s *Store) stamp(kind, name string) time.Time {
	info, err := os.Lstat(s.path(kind, name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (s *Store) remove(kind, name string) error {
	if err := os.Remove(s.path(kind, name)); err != nil && !missing(err) {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}

// setAside renames a damaged entry, so that it neither blocks nor vanishes.
func (s *Store) setAside(kind, name string, cause error) error {
	path := s.path(kind, name)
	aside := path + ".damaged-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := os.Rename(path, aside); err != nil && !missing(err) {
		return fmt.Errorf("token store: %q cannot be read (%w) nor set aside: %w", path, errSealBroken, err)
	}
	s.warn(fmt.Sprintf("token store: %q cannot be read and was set aside: %v", path, kindOf(cause)))
	return nil
}

// kindOf hides the details of a parse error: they may quote the content.
func kindOf(err error) error {
	if errors.Is(err, errSealBroken) {
		return err
	}
	return errors.New("it is not valid JSON of the expected form")
}
