package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

func testKey(t *testing.T) *SigningKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pemKey(t, key)
}

func pemKey(t *testing.T, key crypto.Signer) *SigningKey {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
	k, err := ReadSigningKey(path, "k1")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAssertions(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for alg, key := range map[string]crypto.Signer{"RS256": rsaKey, "ES512": ecKey, "EdDSA": edKey} {
		now := time.Now()
		text, err := pemKey(t, key).assertion("me", "https://as", now)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(text, ".")
		var header, claims map[string]any
		unpack(t, parts[0], &header)
		unpack(t, parts[1], &claims)
		if header["alg"] != alg || header["kid"] != "k1" || claims["iss"] != "me" || claims["sub"] != "me" || claims["aud"] != "https://as" ||
			claims["exp"] != float64(now.Unix()+60) || claims["jti"] == "" {
			t.Errorf("%s: header %v, claims %v", alg, header, claims)
		}
		signature, err := base64.RawURLEncoding.DecodeString(parts[2])
		if err != nil {
			t.Fatal(err)
		}
		if !verifies(key, []byte(parts[0]+"."+parts[1]), signature) {
			t.Errorf("%s: the signature does not verify", alg)
		}
	}
}

func verifies(key crypto.Signer, text, signature []byte) bool {
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		sum := sha256.Sum256(text)
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		half := len(signature) / 2
		r, s := new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])
		return half == 66 && ecdsa.Verify(public, digest(public.Curve, text), r, s)
	case ed25519.PublicKey:
		return ed25519.Verify(public, text, signature)
	}
	return false
}

func unpack(t *testing.T, part string, into any) {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSigningKeyRefuses(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"not a PEM file":     "hush",
		"not an unencrypted": "-----BEGIN ENCRYPTED PRIVATE KEY-----\naHVzaA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
	} {
		_, err := ReadSigningKey(write(t, text, 0o600), "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
