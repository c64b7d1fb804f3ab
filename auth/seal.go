package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keySize is the size of the sealing key and of the key for ids, in bytes.
const keySize = 32

// sealPrefix marks the format of sealed files, so that another can follow.
const sealPrefix = "mcpbridge-sealed-1\n"

var errSealBroken = errors.New("the content is damaged or was sealed with another key")

// seal encrypts content with AES-256-GCM under a random nonce. name is
// authenticated too: a file under another name does not open.
func seal(key []byte, name string, content []byte) ([]byte, error) {
	aead, err := newSealer(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal([]byte(sealPrefix), nil, content, []byte(name)), nil
}

func unseal(key []byte, name string, sealed []byte) ([]byte, error) {
	aead, err := newSealer(key)
	if err != nil {
		return nil, err
	}
	rest, ok := strings.CutPrefix(string(sealed), sealPrefix)
	if !ok {
		return nil, errSealBroken
	}
	content, err := aead.Open(nil, nil, []byte(rest), []byte(name))
	if err != nil {
		return nil, errSealBroken
	}
	return content, nil
}

func newSealer(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("sealing key: %d bytes instead of %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// newKey returns a random key. crypto/rand does not fail: it ends the program.
func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key)
	return key
}

func encodeKey(key []byte) string { return base64.RawStdEncoding.EncodeToString(key) }

func decodeKey(text string) ([]byte, error) {
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keySize {
		return nil, errors.New("not a key of this program")
	}
	return key, nil
}

// fileName derives a file name from what identifies an entry.
func fileName(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
