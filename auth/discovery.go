package auth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxServers bounds how many of a resource's authorization servers are tried.
const maxServers = 5

// A resource is a protected resource metadata document (RFC 9728), as far as it
// is used here.
type resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// An authServer is an authorization server metadata document (RFC 8414 or
// OpenID Connect Discovery 1.0), as far as it is used here. The SDK's type has
// no device endpoint, and its fetch refuses servers in private networks and ends
// the search at the first web page; hence this one.
type authServer struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Grants        []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	PKCE          []string `json:"code_challenge_methods_supported"`
	ClientIDURL   bool     `json:"client_id_metadata_document_supported"`
	IssPromised   bool     `json:"authorization_response_iss_parameter_supported"`

	guessed bool // made from the 2025-03-26 default paths, no document
}

// A place is where the tokens for one upstream come from.
type place struct {
	resource string   // value of the resource parameter
	scopes   []string // scopes_supported of the resource
	server   authServer
}

// discovery finds the place for an upstream.
type discovery struct {
	caller
	upstream *url.URL
	resource string // --resource; replaces what the metadata says
	prefer   string // issuer of an earlier sign-in, tried first
	tokenURL string // --token-endpoint
	issuer   string // --issuer
	warn     func(string)
}

func (d discovery) find(ctx context.Context, c Challenge) (place, error) {
	doc, err := d.resourceMetadata(ctx, c.ResourceMetadata)
	if errors.Is(err, errAbsent) {
		return d.legacy(ctx)
	}
	if err != nil {
		return place{}, err
	}
	server, err := d.firstServer(ctx, doc.Servers)
	if err != nil {
		return place{}, err
	}
	return place{resource: d.resourceValue(doc.Resource), scopes: doc.Scopes, server: server}, nil
}

func (d discovery) resourceValue(found string) string {
	if d.resource != "" {
		return d.resource
	}
	if found != "" {
		return found
	}
	return canonical(d.upstream)
}

// canonical is the resource identifier of an upstream that names none: without
// fragment, and without the slash of an empty path.
func canonical(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	c.Scheme, c.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if c.Path == "/" {
		c.Path, c.RawPath = "", ""
	}
	return c.String()
}

// resourceMetadata tries the URL of the challenge, then the well-known places:
// the one of the path, then the root (2026-07-28, protected resource metadata
// discovery requirements). It returns the first valid document; otherwise the
// first error that is more than absence, or errAbsent.
func (d discovery) resourceMetadata(ctx context.Context, fromChallenge string) (resource, error) {
	var places []string
	var misled error
	if fromChallenge != "" {
		if _, misled = d.rule.parse("challenge of the server", "resource_metadata", fromChallenge); misled == nil {
			places = append(places, fromChallenge)
		}
	}
	for _, p := range wellKnown(d.upstream, "oauth-protected-resource") {
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	doc, err := first(places, func(p string) (resource, error) { return d.oneResource(ctx, p) })
	switch {
	case misled != nil && errors.Is(err, errAbsent):
		return doc, misled
	case misled != nil && err == nil && d.warn != nil:
		d.warn(misled.Error() + "; what is at the well-known place is used")
	}
	return doc, err
}

func (d discovery) oneResource(ctx context.Context, address string) (resource, error) {
	document := "protected resource metadata " + shownText(address)
	u, err := d.rule.check(address)
	if err != nil {
		return resource{}, fmt.Errorf("%s: %w", document, err)
	}
	body, err := d.get(ctx, document, u)
	if err != nil {
		return resource{}, err
	}
	var doc resource
	if err := decode(document, body, &doc); err != nil {
		return resource{}, err
	}
	return doc, d.checkResource(document, doc)
}

// checkResource is RFC 9728, section 3.3: the document must be about the
// upstream. A resource that contains the upstream (same origin, a prefix of its
// path) and a slash more or less are accepted, because many servers publish one
// document for all their paths.
func (d discovery) checkResource(document string, doc resource) error {
	if doc.Resource == "" {
		return fmt.Errorf("%s: field \"resource\" is missing", document)
	}
	if d.resource != "" && strings.TrimSuffix(doc.Resource, "/") == strings.TrimSuffix(d.resource, "/") {
		return checkServers(document, doc)
	}
	r, err := url.Parse(doc.Resource)
	if err != nil || !sameOrigin(r, d.upstream) || !within(d.upstream.Path, r.Path) {
		return fmt.Errorf("%s: field \"resource\" is %q, but the server is %q; if that is intended, say so with --resource",
			document, clean(doc.Resource), shown(d.upstream))
	}
	return checkServers(document, doc)
}

func checkServers(document string, doc resource) error {
	if len(doc.Servers) == 0 {
		return fmt.Errorf("%s: field \"authorization_servers\" is missing or empty", document)
	}
	return nil
}

// within reports whether path is prefix, or below it.
func within(path, prefix string) bool {
	path, prefix = strings.TrimSuffix(path, "/"), strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// firstServer returns the first authorization server that has usable metadata,
// beginning with the one of an earlier sign-in.
func (d discovery) firstServer(ctx context.Context, issuers []string) (authServer, error) {
	if i := slices.Index(issuers, d.prefer); i > 0 {
		issuers = append([]string{d.prefer}, slices.Delete(slices.Clone(issuers), i, i+1)...)
	}
	server, err := first(issuers[:min(len(issuers), maxServers)], func(issuer string) (authServer, error) {
		return d.serverMetadata(ctx, issuer)
	})
	if errors.Is(err, errAbsent) && d.tokenURL != "" {
		return authServer{Issuer: issuers[0]}, nil // the endpoint is configured: nothing else is needed
	}
	return server, err
}

// serverMetadata tries the well-known places of an issuer in the order of the
// 2026-07-28 revision, authorization server metadata discovery.
func (d discovery) serverMetadata(ctx context.Context, issuer string) (authServer, error) {
	u, err := d.rule.check(issuer)
	if err != nil {
		return authServer{}, fmt.Errorf("authorization server %q: %w", shownText(issuer), err)
	}
	if u.RawQuery != "" {
		return authServer{}, fmt.Errorf("authorization server %q: an issuer has no query", shown(u))
	}
	return first(issuerPlaces(u), func(p string) (authServer, error) { return d.oneServer(ctx, p, issuer) })
}

func issuerPlaces(issuer *url.URL) []string {
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	base := issuer.Scheme + "://" + issuer.Host
	places := []string{
		base + "/.well-known/oauth-authorization-server" + path,
		base + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		places = append(places, base+path+"/.well-known/openid-configuration")
	}
	return places
}

func wellKnown(u *url.URL, name string) []string {
	base := u.Scheme + "://" + u.Host + "/.well-known/" + name
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{base}
	}
	return []string{base + path, base}
}

func (d discovery) oneServer(ctx context.Context, address, issuer string) (authServer, error) {
	document := "authorization server metadata " + shownText(address)
	u, err := d.rule.check(address)
	if err != nil {
		return authServer{}, fmt.Errorf("%s: %w", document, err)
	}
	body, err := d.get(ctx, document, u)
	if err != nil {
		return authServer{}, err
	}
	var doc authServer
	if err := decode(document, body, &doc); err != nil {
		return authServer{}, err
	}
	return doc, d.checkServer(document, doc, issuer)
}

// checkServer is RFC 8414, section 3.3, and the 2026-07-28 revision, authorization
// server metadata discovery: the document must name the very issuer that it was
// asked for, or it must not be used. Many providers' documents differ by a slash;
// who knows such a provider says so.
func (d discovery) checkServer(document string, doc authServer, issuer string) error {
	switch {
	case doc.Issuer == "":
		return fmt.Errorf("%s: field \"issuer\" is missing", document)
	case doc.Issuer == issuer, doc.Issuer == d.issuer:
	case strings.TrimSuffix(doc.Issuer, "/") == strings.TrimSuffix(issuer, "/"):
		return fmt.Errorf("%s: field \"issuer\" is %q, but %q was expected; refused, although they differ by a slash only; if that is intended, say so with --issuer %s",
			document, clean(doc.Issuer), clean(issuer), clean(doc.Issuer))
	default:
		return fmt.Errorf("%s: field \"issuer\" is %q, but %q was expected; refused", document, clean(doc.Issuer), clean(issuer))
	}
	if doc.Token == "" && d.tokenURL == "" {
		return fmt.Errorf("%s: field \"token_endpoint\" is missing", document)
	}
	for _, e := range []struct{ field, value string }{
		{"authorization_endpoint", doc.Authorization},
		{"token_endpoint", doc.Token},
		{"registration_endpoint", doc.Registration},
		{"device_authorization_endpoint", doc.Device},
		{"revocation_endpoint", doc.Revocation},
	} {
		if err := d.rule.optional(document, e.field, e.value); err != nil {
			return err
		}
	}
	return nil
}

// legacy is the 2025-03-26 revision, for servers without protected resource
// metadata: the server's own origin is the issuer, and without a document its
// default paths are /authorize, /token and /register.
func (d discovery) legacy(ctx context.Context) (place, error) {
	origin := strings.ToLower(d.upstream.Scheme) + "://" + strings.ToLower(d.upstream.Host)
	d.issuer = either(d.issuer, origin+"/") // nobody has said how the issuer is written
	p := place{resource: d.resourceValue("")}
	server, err := d.serverMetadata(ctx, origin)
	if errors.Is(err, errAbsent) {
		server, err = authServer{
			Issuer: origin, Authorization: origin + "/authorize", Token: origin + "/token",
			Registration: origin + "/register", guessed: true,
		}, nil
	}
	p.server = server
	return p, err
}

// first returns the first success. Failing that, it returns the first error that
// says more than that nothing is there.
func first[T any](places []string, try func(string) (T, error)) (T, error) {
	var none T
	var worst error
	for _, p := range places {
		got, err := try(p)
		if err == nil {
			return got, nil
		}
		if worst == nil || errors.Is(worst, errAbsent) && !errors.Is(err, errAbsent) {
			worst = err
		}
	}
	return none, worst
}
