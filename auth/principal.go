package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
)

// Anonymous is the principal of a bridge without any credentials.
const Anonymous = "anonymous"

// principalID makes an id from what identifies an account. It is keyed, so that
// nobody can test guesses against an id that a list shows.
func (s *Store) principalID(kind string, parts ...string) (string, error) {
	key, err := s.principalKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(fileName(slices.Concat([]string{kind}, parts)...)))
	return kind + "-" + hex.EncodeToString(mac.Sum(nil)[:8]), nil
}

// newAccountID is for an account whose subject the server does not tell.
func newAccountID() string {
	id := make([]byte, 8)
	_, _ = rand.Read(id)
	return "oauth-" + hex.EncodeToString(id)
}

// accountID chooses the id of a fresh sign-in. An earlier record keeps its id
// unless both subjects are known and differ: a step-up or a repeated sign-in
// must not lose the account's jobs. A known subject gets the same id again even
// after its record was removed; where none is known, the account that signed in
// last with the same issuer does, though its record is damaged or signed out.
func (s *Store) accountID(issuer, subject string, earlier *record, last *settings) (string, error) {
	if earlier != nil && earlier.Issuer == issuer && earlier.Principal != "" && (subject == "" || earlier.Subject == "" || subject == earlier.Subject) {
		return earlier.Principal, nil
	}
	if subject == "" && earlier == nil && last != nil && last.Issuer == issuer && last.Account != "" {
		return last.Account, nil
	}
	if subject == "" {
		return newAccountID(), nil
	}
	id, err := s.principalID("oauth", issuer, subject)
	if errors.Is(err, errNotKept) { // no id was ever made by it: any new one will do
		s.warn(err.Error() + "; the account has an id of its own, which it keeps with its tokens")
		return newAccountID(), nil
	}
	return id, err
}
