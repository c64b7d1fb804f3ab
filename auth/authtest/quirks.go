package authtest

import "time"

// Quirks are the ways in which the server deviates. The zero value is a good
// server with dynamic registration, rotating refresh tokens and no ID tokens.
type Quirks struct {
	// Protected resource metadata.
	NoHint        bool   // the challenge names no resource_metadata
	Hint          string // resource_metadata of the challenge; empty: the right one
	NoChallenge   bool   // a 401 has no WWW-Authenticate at all
	ResourceAt    string // "path" (default), "root", "odd" (only the challenge knows), "none"
	Resource      string // value of "resource"; empty: the endpoint's URL
	ResourceBody  string // the whole document, raw
	Servers       []string
	ResourceScope []string // scopes_supported of the resource

	// Authorization server metadata.
	IssuerPath     string // such as /tenant
	ServerAt       string // "oauth" (default), "oidc", "appended", "none"
	Issuer         string // value of "issuer"; empty: the right one
	ServerBody     string // the whole document, raw
	Pages          bool   // unknown paths answer 200 with a web page
	NoPKCE         bool
	ServerScopes   []string
	AuthMethods    []string
	Authorization  string // value of authorization_endpoint
	NoRegistration bool
	Documents      bool // client ID metadata documents are supported
	Device         bool // the device grant is offered

	// Authorization.
	PromiseIss bool
	SendIss    string // "right", "wrong" or none
	Deny       string // error code instead of a code

	// Tokens.
	Lifetime        time.Duration // of access tokens; 0: not said
	NoRefresh       bool
	NoRotation      bool
	OfflineOnly     bool   // a refresh token only with offline_access
	TokenBody       string // the whole token response, raw
	TokenStatus     int    // status of TokenBody; 0: 200
	TokenRedirect   bool   // the token endpoint redirects
	TokenForm       bool   // the token response is form-encoded
	RefusesResource bool
	Subject         string // sub of ID tokens; empty: no ID token
	ClientID        string // the one pre-registered client
	ClientSecret    string
	ClientGrant     bool // client_credentials is allowed

	RegistrationBody string  // the whole registration response, raw
	DeviceBody       string  // the whole device authorization response, raw
	Pendings         int     // device polls that are answered authorization_pending
	SlowDown         bool    // the first device poll is answered slow_down
	DeviceInterval   float64 // seconds; 0: 0.02

	// Resource server.
	ToolScope string // scope that a call with the query ?tool needs
	ListScope string // scope that any call needs; named in the first challenge
}
