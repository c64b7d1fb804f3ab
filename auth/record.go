package auth

import (
	"time"

	"github.com/go-json-experiment/json"
)

// A storedSecret is a Secret that reveals itself to the encoder of the sealed
// store, and still prints as nothing.
type storedSecret struct{ Secret }

func (s storedSecret) MarshalJSON() ([]byte, error) { return json.Marshal(s.Reveal()) }

func (s *storedSecret) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	s.Secret = NewSecret(text)
	return nil
}

// A record is what is kept of one sign-in, sealed.
type record struct {
	Issuer    string       `json:"issuer"`
	ClientID  string       `json:"clientId"`
	Resource  string       `json:"resource"`
	Access    storedSecret `json:"access"`
	Refresh   storedSecret `json:"refresh"`
	IDToken   storedSecret `json:"idToken"`
	Expiry    time.Time    `json:"expiry"`   // of Access; zero: nobody said
	Obtained  time.Time    `json:"obtained"` // when the tokens arrived
	Asked     []string     `json:"asked"`    // scopes asked for so far, their union
	Granted   []string     `json:"granted"`  // scopes the server says it granted; nil: as asked
	Subject   string       `json:"subject"`  // sub of the ID token; may be empty
	Principal string       `json:"principal"`
	Serial    int64        `json:"serial"` // grows with each change
}

// recordName is the file name of a record (design: issuer, client, resource and
// --principal).
func recordName(issuer, clientID, resource, principal string) string {
	return fileName("token", issuer, clientID, resource, principal)
}

// renewAt is when a token should be renewed: 30 s before its end, or the last
// tenth of a short life.
func (r *record) renewAt() time.Time {
	if r.Expiry.IsZero() {
		return time.Time{}
	}
	early := min(30*time.Second, r.Expiry.Sub(r.Obtained)/10)
	return r.Expiry.Add(-max(early, 0))
}

func (r *record) due(now time.Time) bool {
	at := r.renewAt()
	return !at.IsZero() && !now.Before(at)
}

func (r *record) expired(now time.Time) bool {
	return !r.Expiry.IsZero() && !now.Before(r.Expiry)
}

// settings is what is kept of how a server was signed in, without secrets, so
// that later runs renew with the same client and start without any look-up.
type settings struct {
	Server    string `json:"server"`
	Principal string `json:"principal"` // --principal
	Account   string `json:"account"`   // principal id of the last sign-in
	Record    string `json:"record"`    // name of the token record; empty: signed out

	Grant        Grant    `json:"grant"`
	Issuer       string   `json:"issuer"`
	TokenURL     string   `json:"tokenEndpoint"`
	Revocation   string   `json:"revocationEndpoint"`
	ClientID     string   `json:"clientId"`
	ClientKind   kind     `json:"clientKind"`
	AuthMethod   string   `json:"tokenAuthMethod"`
	RedirectHost string   `json:"redirectHost"`
	Resource     string   `json:"resource"` // value sent; empty: none
	Scopes       []string `json:"scopes"`   // --scope

	ClientMetadataURL string              `json:"clientMetadataUrl"`
	ConfiguredClient  string              `json:"configuredClientId"`
	ConfiguredTarget  string              `json:"configuredResource"`
	NoResource        bool                `json:"noResource"`
	AuthorizeParams   map[string][]string `json:"authorizeParams"`
	TokenEndpoint     string              `json:"configuredTokenEndpoint"`
	ConfiguredIssuer  string              `json:"configuredIssuer"`
	UseIDToken        bool                `json:"useIdToken"`
	CallbackHost      string              `json:"callbackHost"`
	CallbackPort      int                 `json:"callbackPort"`
	CallbackPath      string              `json:"callbackPath"`
}
