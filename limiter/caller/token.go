package caller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// maxToken is the length of the longest token that is parsed. API Gateway passes at
// most 10,240 bytes of headers.
const maxToken = 8 << 10

// Algorithms are those that a Verifier accepts: signatures with a public key. Neither
// "none" nor a shared secret is among them.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// TokenOptions say which tokens a Verifier accepts.
type TokenOptions struct {
	Keys       KeySource // required
	Issuer     string    // the iss that a token must have; required
	Audience   string    // one of the aud that a token must have; required
	Algorithms []string  // some of Algorithms; required
	UserClaim  string    // "" means sub
	TierClaim  string    // "" means tier
	// Leeway is by how much exp and nbf may be missed; 0 means a minute.
	Leeway time.Duration
}

// Claims are what a verified token says.
type Claims struct {
	User string
	Tier string
	// Text has the claims that are strings, and those that are numbers or booleans as the
	// token spells them: 42 and "42" are the same. To whoever counts by a claim one that is
	// null, a list or an object is absent.
	Text map[string]string
}

// Verifier verifies JSON Web Tokens (RFC 7519). It is safe for concurrent use.
type Verifier struct {
	o          TokenOptions
	algorithms []jose.SignatureAlgorithm
}

// NewVerifier returns a Verifier.
func NewVerifier(o TokenOptions) (*Verifier, error) {
	switch {
	case o.Keys == nil:
		return nil, fmt.Errorf("token keys are missing")
	case o.Issuer == "":
		return nil, fmt.Errorf("token issuer is missing: without it any issuer that shares a key is believed")
	case o.Audience == "":
		return nil, fmt.Errorf("token audience is missing: without it tokens for other APIs are believed")
	case len(o.Algorithms) == 0:
		return nil, fmt.Errorf("token algorithms are missing: name those that the issuer signs with")
	}
	if o.UserClaim == "" {
		o.UserClaim = "sub"
	}
	if o.TierClaim == "" {
		o.TierClaim = "tier"
	}
	if o.Leeway == 0 {
		o.Leeway = time.Minute
	}
	v := &Verifier{o: o}
	for _, name := range o.Algorithms {
		if !slices.Contains(Algorithms, name) {
			return nil, fmt.Errorf("token algorithm: got %q, want some of %v", name, Algorithms)
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	return v, nil
}

// Verify returns the claims of a token that is valid at now. An error wraps
// ErrInvalidCredential or ErrUnverified, and holds nothing of the token.
func (v *Verifier) Verify(ctx context.Context, now time.Time, token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, fmt.Errorf("%w: token of %d bytes", ErrInvalidCredential, len(token))
	}
	parsed, err := jwt.ParseSigned(token, v.algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return Claims{}, fmt.Errorf("%w: not a token signed with %v", ErrInvalidCredential, v.o.Algorithms)
	}
	header := parsed.Headers[0]
	if _, critical := header.ExtraHeaders["crit"]; critical { // no extension is understood here (RFC 7515, 4.1.11)
		return Claims{}, fmt.Errorf("%w: token with crit", ErrInvalidCredential)
	}
	key, err := v.o.Keys.Key(ctx, now, header.KeyID, header.Algorithm)
	if err != nil {
		return Claims{}, err
	}
	var standard jwt.Claims
	var all map[string]json.RawMessage
	if err := parsed.Claims(key, &standard, &all); err != nil {
		return Claims{}, fmt.Errorf("%w: signature or claims of the token", ErrInvalidCredential)
	}
	if standard.Expiry == nil {
		return Claims{}, fmt.Errorf("%w: token without exp", ErrInvalidCredential)
	}
	expected := jwt.Expected{Issuer: v.o.Issuer, AnyAudience: jwt.Audience{v.o.Audience}, Time: now}
	if err := standard.ValidateWithLeeway(expected, v.o.Leeway); err != nil {
		return Claims{}, fmt.Errorf("%w: %w", ErrInvalidCredential, err)
	}
	return v.claims(all)
}

func (v *Verifier) claims(all map[string]json.RawMessage) (Claims, error) {
	text := make(map[string]string, len(all))
	for name, value := range all {
		if s, ok := textOf(value); ok {
			text[name] = s
		}
	}
	c := Claims{User: text[v.o.UserClaim], Tier: text[v.o.TierClaim], Text: text}
	if c.User == "" {
		return Claims{}, fmt.Errorf("%w: token without %s", ErrInvalidCredential, v.o.UserClaim)
	}
	return c, nil
}

// textOf returns the text of a string, a number or a boolean.
func textOf(value json.RawMessage) (text string, ok bool) {
	switch text = string(value); {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["), text == "null":
		return "", false
	case strings.HasPrefix(text, `"`):
		err := json.Unmarshal(value, &text)
		return text, err == nil
	}
	return text, true
}
