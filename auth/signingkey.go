package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/go-json-experiment/json"
)

// assertionLifetime is how long a client assertion is good for.
const assertionLifetime = time.Minute

// A SigningKey signs client assertions (RFC 7523). x/oauth2 signs with RS256
// only, so the few lines of RFC 7515 that are needed are here.
type SigningKey struct {
	signer crypto.Signer
	alg    string
	id     string // kid; may be empty
}

// ReadSigningKey reads a private key (PEM: PKCS #8, PKCS #1 or SEC 1; RSA, ECDSA
// or Ed25519). id becomes the kid of assertions; it may be empty. On Unix a file
// that group or others can read is refused.
func ReadSigningKey(path, id string) (*SigningKey, error) {
	text, err := readPrivate(path, maxHeaderFile)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	key, err := ParseSigningKey(NewSecret(text), id)
	if err != nil {
		return nil, fmt.Errorf("private key %q: %w", path, err)
	}
	return key, nil
}

// ParseSigningKey is ReadSigningKey for text at hand.
func ParseSigningKey(text Secret, id string) (*SigningKey, error) {
	block, _ := pem.Decode([]byte(text.Reveal()))
	if block == nil {
		return nil, errors.New("not a PEM file")
	}
	signer, err := parsePrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	alg, err := algorithm(signer)
	if err != nil {
		return nil, err
	}
	return &SigningKey{signer: signer, alg: alg, id: id}, nil
}

func parsePrivateKey(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errors.New("a key of this kind cannot sign")
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	return nil, errors.New("not an unencrypted private key")
}

func algorithm(signer crypto.Signer) (string, error) {
	switch key := signer.(type) {
	case *rsa.PrivateKey:
		return "RS256", nil
	case ed25519.PrivateKey:
		return "EdDSA", nil
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return "ES256", nil
		case elliptic.P384():
			return "ES384", nil
		case elliptic.P521():
			return "ES512", nil
		}
	}
	return "", errors.New("keys of this kind are not supported; use RSA, ECDSA (P-256, P-384, P-521) or Ed25519")
}

// assertion is a signed statement of the client about itself.
func (k *SigningKey) assertion(clientID, audience string, now time.Time) (string, error) {
	header := map[string]string{"alg": k.alg, "typ": "JWT"}
	if k.id != "" {
		header["kid"] = k.id
	}
	claims := map[string]any{
		"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLifetime).Unix(),
	}
	h, err := json.Marshal(header, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	c, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	signature, err := k.sign([]byte(signed))
	if err != nil {
		return "", fmt.Errorf("client assertion: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func (k *SigningKey) sign(text []byte) ([]byte, error) {
	switch key := k.signer.(type) {
	case *rsa.PrivateKey:
		sum := sha256.Sum256(text)
		return key.Sign(rand.Reader, sum[:], crypto.SHA256)
	case *ecdsa.PrivateKey:
		return signECDSA(key, text)
	default:
		return k.signer.Sign(rand.Reader, text, crypto.Hash(0))
	}
}

// signECDSA writes both numbers at full width (RFC 7518, section 3.4), where
// crypto/ecdsa would write ASN.1.
func signECDSA(key *ecdsa.PrivateKey, text []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, key, digest(key.Curve, text))
	if err != nil {
		return nil, err
	}
	size := (key.Curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	for i, n := range []*big.Int{r, s} {
		n.FillBytes(out[i*size : (i+1)*size])
	}
	return out, nil
}

func digest(curve elliptic.Curve, text []byte) []byte {
	switch curve {
	case elliptic.P384():
		sum := sha512.Sum384(text)
		return sum[:]
	case elliptic.P521():
		sum := sha512.Sum512(text)
		return sum[:]
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
