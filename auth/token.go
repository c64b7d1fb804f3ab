package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// A tokenEndpoint asks one authorization server for tokens. It is written by
// hand because x/oauth2 sends no resource with a refresh, gives its device
// request no context, knows no private_key_jwt, and quotes response bodies in
// its errors.
type tokenEndpoint struct {
	caller
	url    string
	issuer string
	client client
}

// tokens is a successful token response.
type tokens struct {
	access, refresh, id Secret
	expiry              time.Time
	scopes              []string // nil: as asked (RFC 6749, section 5.1)
	subject             string
}

func (t tokenEndpoint) ask(ctx context.Context, form url.Values) (tokens, error) {
	u, err := t.rule.parse("authorization server metadata", "token_endpoint", t.url)
	if err != nil {
		return tokens{}, err
	}
	document := "token response of " + shown(u)
	got, err := t.postForm(ctx, document, u, form)
	if err != nil {
		return tokens{}, err
	}
	return parseTokens(document, got, time.Now())
}

// postForm sends an authenticated form and returns the answer if it is no error.
func (t tokenEndpoint) postForm(ctx context.Context, document string, u *url.URL, form url.Values) (answer, error) {
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if err := t.client.authenticate(h, form, t.issuer); err != nil {
		return answer{}, err
	}
	got, err := t.post(ctx, document, u, h, []byte(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	// Some servers answer 200 with an error in the body.
	if got.status < 200 || got.status > 299 || hasError(got.body) {
		return answer{}, serverError(document, got).without(form)
	}
	return got, nil
}

// without drops a description that repeats what was sent: it may be secret.
func (e *ServerError) without(form url.Values) *ServerError {
	for name := range form {
		if v := form.Get(name); len(v) >= 8 && strings.Contains(e.Description, v) {
			e.Description = ""
		}
	}
	return e
}

func hasError(body []byte) bool {
	var doc struct {
		Error jsontext.Value `json:"error"`
	}
	return json.Unmarshal(body, &doc) == nil && present(doc.Error)
}

func serverError(document string, a answer) *ServerError {
	e := &ServerError{Document: document, Status: a.status}
	var doc struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(a.body, &doc) == nil {
		e.Code, e.Description = clean(doc.Error), clean(doc.Description)
	}
	return e
}

func parseTokens(document string, a answer, now time.Time) (tokens, error) {
	body, err := asJSON(document, a)
	if err != nil {
		return tokens{}, err
	}
	var doc struct {
		Access  string         `json:"access_token"`
		Refresh string         `json:"refresh_token"`
		ID      string         `json:"id_token"`
		Type    string         `json:"token_type"`
		Expires jsontext.Value `json:"expires_in"`
		Scope   *string        `json:"scope"`
	}
	if err := decode(document, body, &doc); err != nil {
		return tokens{}, err
	}
	if doc.Access == "" {
		return tokens{}, fmt.Errorf("%s: field \"access_token\" is missing", document)
	}
	if doc.Type != "" && !strings.EqualFold(doc.Type, "Bearer") {
		return tokens{}, fmt.Errorf("%s: field \"token_type\" is %q; only Bearer tokens are supported", document, clean(doc.Type))
	}
	t := tokens{refresh: NewSecret(doc.Refresh), id: NewSecret(doc.ID), subject: subjectOf(doc.ID)}
	if t.access, err = checkToken(document+`: field "access_token"`, doc.Access); err != nil {
		return tokens{}, err
	}
	if present(doc.Expires) {
		if t.expiry, err = expiresIn(document, doc.Expires, now); err != nil {
			return tokens{}, err
		}
	}
	if doc.Scope != nil {
		t.scopes = scopeList(*doc.Scope)
	}
	return t, nil
}

// asJSON turns the form-encoded answers of some old servers into JSON.
func asJSON(document string, a answer) ([]byte, error) {
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return a.body, nil
	}
	values, err := url.ParseQuery(string(a.body))
	if err != nil {
		return nil, fmt.Errorf("%s: not a valid form", document)
	}
	flat := map[string]string{}
	for name := range values {
		flat[name] = values.Get(name)
	}
	return json.Marshal(flat)
}

// subjectOf reads "sub" of an ID token. The token came from the token endpoint
// over a connection that was checked, so that its signature adds nothing
// (OpenID Connect Core 1.0, section 3.1.3.7, point 6). An access token is never
// read: it is opaque to a client.
func subjectOf(idToken string) string {
	parts := strings.Split(idToken, ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var doc struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(claims, &doc) != nil {
		return ""
	}
	return doc.Subject
}

// refresh exchanges a refresh token for new tokens. The scopes are left out: the
// server grants those of the original grant (RFC 6749, section 6).
func (t tokenEndpoint) refresh(ctx context.Context, token Secret, resource string) (tokens, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.Reveal()}}
	setResource(form, resource)
	return t.ask(ctx, form)
}

func (t tokenEndpoint) redeem(ctx context.Context, code, verifier Secret, redirectURI, resource string) (tokens, error) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()},
		"code_verifier": {verifier.Reveal()}, "redirect_uri": {redirectURI},
	}
	setResource(form, resource)
	return t.ask(ctx, form)
}

func (t tokenEndpoint) clientCredentials(ctx context.Context, scopes []string, resource string) (tokens, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	setResource(form, resource)
	return t.ask(ctx, form)
}

func setResource(form url.Values, resource string) {
	if resource != "" {
		form.Set("resource", resource)
	}
}

// A deviceAnswer is a device authorization response (RFC 8628, section 3.2).
type deviceAnswer struct {
	code        Secret
	userCode    string
	page        string // where to type the user code
	pageAndCode string // the same with the code in it; may be empty
	expiry      time.Time
	interval    time.Duration
}

func (t tokenEndpoint) device(ctx context.Context, endpoint string, scopes []string, resource string) (deviceAnswer, error) {
	u, err := t.rule.parse("authorization server metadata", "device_authorization_endpoint", endpoint)
	if err != nil {
		return deviceAnswer{}, err
	}
	document := "device authorization response of " + shown(u)
	form := url.Values{}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	setResource(form, resource)
	got, err := t.postForm(ctx, document, u, form)
	if err != nil {
		return deviceAnswer{}, err
	}
	return t.parseDevice(document, got.body, time.Now())
}

func (t tokenEndpoint) parseDevice(document string, body []byte, now time.Time) (deviceAnswer, error) {
	var doc struct {
		Code     string         `json:"device_code"`
		UserCode string         `json:"user_code"`
		Page     string         `json:"verification_uri"`
		OldPage  string         `json:"verification_url"` // of drafts, still in use
		Complete string         `json:"verification_uri_complete"`
		Expires  jsontext.Value `json:"expires_in"`
		Interval jsontext.Value `json:"interval"`
	}
	if err := decode(document, body, &doc); err != nil {
		return deviceAnswer{}, err
	}
	d := deviceAnswer{code: NewSecret(doc.Code), userCode: clean(doc.UserCode), page: doc.Page, pageAndCode: doc.Complete, interval: 5 * time.Second}
	if d.page == "" {
		d.page = doc.OldPage
	}
	if d.code.IsZero() || d.userCode == "" {
		return deviceAnswer{}, fmt.Errorf("%s: field \"device_code\" or \"user_code\" is missing", document)
	}
	if _, err := t.rule.parse(document, "verification_uri", d.page); err != nil {
		return deviceAnswer{}, err
	}
	if err := t.rule.optional(document, "verification_uri_complete", d.pageAndCode); err != nil {
		return deviceAnswer{}, err
	}
	if present(doc.Expires) {
		at, err := expiresIn(document, doc.Expires, now)
		if err != nil {
			return deviceAnswer{}, err
		}
		d.expiry = at
	}
	if seconds, ok := number(doc.Interval); ok && seconds > 0 && seconds < 3600 {
		d.interval = time.Duration(seconds * float64(time.Second))
	}
	return d, nil
}

// await polls until the person has approved, at the server's pace (RFC 8628,
// section 3.5). A poll that does not get through is repeated: the code is good
// until it expires.
func (t tokenEndpoint) await(ctx context.Context, d deviceAnswer, resource string) (tokens, error) {
	if !d.expiry.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, d.expiry, ErrTimeout)
		defer cancel()
	}
	pause := time.NewTimer(d.interval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return tokens{}, context.Cause(ctx)
		case <-pause.C:
		}
		form := url.Values{"grant_type": {deviceGrant}, "device_code": {d.code.Reveal()}}
		setResource(form, resource)
		got, err := t.ask(ctx, form)
		switch code := codeOf(err); {
		case code == "authorization_pending", errors.Is(err, ErrUnavailable):
		case code == "slow_down":
			d.interval += 5 * time.Second
		case code == "access_denied":
			return tokens{}, fmt.Errorf("%w: %w", ErrDenied, err)
		case code == "expired_token":
			return tokens{}, fmt.Errorf("%w: %w", ErrTimeout, err)
		default:
			return got, err
		}
		pause.Reset(d.interval)
	}
}
