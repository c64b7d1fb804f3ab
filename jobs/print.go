package jobs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Print is a keyed digest: equal for equal things in one state directory, and
// of no use to anybody without its key.
type Print [32]byte

// IsZero reports whether there is none.
func (p Print) IsZero() bool { return p == Print{} }

func (p Print) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, p[:]), nil
}

func (p *Print) UnmarshalText(b []byte) error {
	d, err := base64.RawURLEncoding.AppendDecode(nil, b)
	if err != nil || len(d) != len(p) {
		return fmt.Errorf("%q is no print", b)
	}
	copy(p[:], d)
	return nil
}

// secrets holds what is derived from the key of the state directory.
type secrets struct{ key []byte }

// print digests parts under a purpose; each part is preceded by its length, so
// that no two lists of parts are the same bytes.
func (s secrets) print(purpose string, parts ...[]byte) Print {
	mac := hmac.New(sha256.New, s.key)
	write := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		mac.Write(n[:])
		mac.Write(b)
	}
	write([]byte(purpose))
	for _, p := range parts {
		write(p)
	}
	var p Print
	mac.Sum(p[:0])
	return p
}

// fingerprint stands for a call: server, principal, tool and arguments.
func (s secrets) fingerprint(a Account, tool string, arguments []byte) (Print, error) {
	c, err := canonical(arguments)
	if err != nil {
		return Print{}, err
	}
	return s.print("call", []byte(a.Server), []byte(a.Principal), []byte(tool), c), nil
}

func (s secrets) toolPrint(a Account, tool string) Print {
	return s.print("tool", []byte(a.Server), []byte(a.Principal), []byte(tool))
}

func (s secrets) keyPrint(a Account, key string) Print {
	return s.print("key", []byte(a.Server), []byte(a.Principal), []byte(key))
}

// madeKey is the idempotency key that the bridge puts into the call of a job.
// It follows from the handle, so that it need not be kept.
func (s secrets) madeKey(h Handle) string {
	p := s.print("made", []byte(h))
	return "mcpb-" + base64.RawURLEncoding.EncodeToString(p[:18])
}

// canonical returns the RFC 8785 form of arguments; absent ones are {}.
//
// Integers keep their digits: RFC 8785 rounds what a double cannot hold, and
// then two calls with the ids 9007199254740992 and 9007199254740993 would be
// the same.
func canonical(arguments []byte) ([]byte, error) {
	if len(arguments) == 0 {
		return []byte("{}"), nil
	}
	v := jsontext.Value(arguments).Clone()
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("canonical form of arguments: %w", err)
	}
	return v, nil
}

// seal encrypts v for the record of h (AES-256-GCM; the handle is bound to it).
func (s secrets) seal(h Handle, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	aead, err := s.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return aead.Seal(nonce, nonce, plain, []byte(h)), nil
}

// open decrypts what seal made; it is an error if the key has changed.
func (s secrets) open(h Handle, sealed []byte, v any) error {
	aead, err := s.aead()
	if err != nil {
		return err
	}
	n := aead.NonceSize()
	if len(sealed) < n {
		return errors.New("unseal: too short")
	}
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], []byte(h))
	if err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	return json.Unmarshal(plain, v)
}

func (s secrets) aead() (cipher.AEAD, error) {
	key := s.print("seal")
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// checkName refuses what cannot be a name of a server, principal or tool.
func checkName(what, s string) error {
	if s == "" || len(s) > MaxName || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s %q: must have 1 to %d bytes and no NUL", what, clip(s, 40), MaxName)
	}
	return nil
}

// MaxName bounds the names of servers, principals and tools, in bytes.
const MaxName = 4096
