package caller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxToken is the maximum length, in bytes, of a token that is parsed. API Gateway accepts at most
// 10,240 bytes of headers.
const maxToken = 8 << 10

// Algorithms lists the algorithms that a Verifier supports. They sign with a public key. Neither
// "none" nor an algorithm with a shared secret is supported.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// TokenOptions define the tokens that a Verifier accepts.
type TokenOptions struct {
	Keys   KeySource // required
	Issuer string    // issuer (claim iss) of a valid token; required
	// Audience lists the audiences of which a valid token has one, in the claim aud. A token without this claim has it
	// in client_id, as the access tokens of Amazon Cognito. Required.
	Audience   []string
	Algorithms []string // a subset of Algorithms; required
	Claims     ClaimNames
	// Leeway is the tolerance for exp and nbf. 0 means one minute.
	Leeway time.Duration
}

// Verifier verifies JSON Web Tokens (RFC 7519). It is safe for concurrent use.
type Verifier struct {
	o          TokenOptions
	algorithms []jose.SignatureAlgorithm
	tokens     *verifiedTokens
}

// NewVerifier returns a Verifier.
func NewVerifier(o TokenOptions) (*Verifier, error) {
	switch {
	case o.Keys == nil:
		return nil, fmt.Errorf("token keys: required")
	case o.Issuer == "":
		return nil, fmt.Errorf("token issuer: required; otherwise a token of any issuer with the same key would be valid")
	case len(o.Audience) == 0 || slices.Contains(o.Audience, ""):
		return nil, fmt.Errorf("token audience: required; otherwise tokens for other APIs would be valid")
	case len(o.Algorithms) == 0:
		return nil, fmt.Errorf("token algorithms: required; list the algorithms that the issuer signs with")
	}
	if o.Leeway == 0 {
		o.Leeway = time.Minute
	}
	v := &Verifier{o: o, tokens: newVerifiedTokens()}
	for _, name := range o.Algorithms {
		if !slices.Contains(Algorithms, name) {
			return nil, fmt.Errorf("token algorithms: unknown (got %q, want some of %v)", name, Algorithms)
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	return v, nil
}

// Verify returns the claims of a token that is valid at the time now. The error wraps ErrInvalidCredential or
// ErrUnverified, and contains no part of the token.
//
// A Verifier caches the claims of up to 2,000 valid tokens by the hash of the token, in about 4 MiB at
// most. The signature of a repeated token is not verified again until the KeySource returns another key
// for the token. Every call checks the times of the token and gets its key from the KeySource.
func (v *Verifier) Verify(ctx context.Context, now time.Time, token string) (Claims, error) {
	if len(token) > maxToken {
		return Claims{}, fmt.Errorf("%w: token: too long (got %d bytes, want at most %d)", ErrInvalidCredential, len(token), maxToken)
	}
	id := digest(sha256.Sum256([]byte(token)))
	if known := v.tokens.get(id); known != nil {
		key, err := v.o.Keys.Key(ctx, now, known.keyID, known.algorithm)
		if err != nil {
			return Claims{}, err
		}
		if weak.Make(key) == known.key {
			return v.repeated(now, id, known)
		}
	}
	read, err := v.read(ctx, now, token)
	if err != nil {
		return Claims{}, err
	}
	v.tokens.add(id, read)
	return read.claims, nil
}

// repeated returns the cached claims of a token that was verified before. It checks the times of the
// token again.
func (v *Verifier) repeated(now time.Time, id digest, known *verified) (Claims, error) {
	if err := known.times.ValidateWithLeeway(jwt.Expected{Time: now}, v.o.Leeway); err != nil {
		v.tokens.remove(id)
		return Claims{}, fmt.Errorf("%w: %w", ErrInvalidCredential, err)
	}
	return known.claims, nil
}

func (v *Verifier) read(ctx context.Context, now time.Time, token string) (*verified, error) {
	parsed, err := jwt.ParseSigned(token, v.algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, fmt.Errorf("%w: not a token signed with %v", ErrInvalidCredential, v.o.Algorithms)
	}
	header := parsed.Headers[0]
	if _, critical := header.ExtraHeaders["crit"]; critical { // Verify supports no extension (RFC 7515, 4.1.11)
		return nil, fmt.Errorf("%w: token with the header parameter crit, which is not supported", ErrInvalidCredential)
	}
	key, err := v.o.Keys.Key(ctx, now, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	var standard jwt.Claims
	var all map[string]json.RawMessage
	if err := parsed.Claims(key, &standard, &all); err != nil {
		return nil, fmt.Errorf("%w: malformed claims or wrong signature of the token", ErrInvalidCredential)
	}
	if standard.Expiry == nil {
		return nil, fmt.Errorf("%w: token without the claim exp", ErrInvalidCredential)
	}
	if _, ok := all["aud"]; !ok {
		_ = json.Unmarshal(all["client_id"], &standard.Audience) // a value of another type is no audience
	}
	expected := jwt.Expected{Issuer: v.o.Issuer, AnyAudience: v.o.Audience, Time: now}
	err = standard.ValidateWithLeeway(expected, v.o.Leeway)
	if errors.Is(err, jwt.ErrInvalidIssuer) || errors.Is(err, jwt.ErrInvalidAudience) {
		err = fmt.Errorf("%w: got the issuer %.80q and the audience %.80q, want %q and one of %q", err, standard.Issuer, standard.Audience,
			v.o.Issuer, v.o.Audience)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCredential, err)
	}
	claims := v.o.Claims.Of(all, nil)
	if claims.User == "" {
		return nil, fmt.Errorf("%w: token without the claim %s, or with several values of it", ErrInvalidCredential,
			cmp.Or(v.o.Claims.User, "sub"))
	}
	return &verified{
		keyID: header.KeyID, algorithm: header.Algorithm, key: weak.Make(key), claims: claims, bytes: sizeOf(header.KeyID, claims),
		times: jwt.Claims{Expiry: standard.Expiry, NotBefore: standard.NotBefore, IssuedAt: standard.IssuedAt},
	}, nil
}

// These constants bound the verified tokens that a Verifier caches.
const (
	maxVerified      = 2000
	maxVerifiedBytes = 4 << 20
	verifiedBytes    = 512 // estimated size of a token without claims
	claimBytes       = 64  // estimated size of a claim without its text
)

// verified is the cached part of a valid token.
type verified struct {
	keyID, algorithm string
	// key is a weak pointer, so that a cached token does not keep a replaced key set in memory. Weak
	// pointers to different objects are never equal, even after one of the objects is freed.
	key    weak.Pointer[jose.JSONWebKey]
	times  jwt.Claims // only the claims exp, nbf and iat
	claims Claims
	bytes  int
}

// sizeOf returns the estimated memory, in bytes, of a cached token with these claims.
func sizeOf(keyID string, claims Claims) int {
	n := verifiedBytes + len(keyID)
	for name, values := range claims.Values {
		n += claimBytes + len(name)
		for _, text := range values {
			n += claimBytes + len(text)
		}
	}
	return n
}

// verifiedTokens caches valid tokens by their hash. It evicts the least recently used token first. It
// is safe for concurrent use.
type verifiedTokens struct {
	mu     sync.Mutex
	tokens *simplelru.LRU[digest, *verified]
	bytes  int
}

func newVerifiedTokens() *verifiedTokens {
	t := &verifiedTokens{}
	t.tokens, _ = simplelru.NewLRU(maxVerified, func(_ digest, v *verified) { t.bytes -= v.bytes }) // NewLRU fails only for a size below 1
	return t
}

func (t *verifiedTokens) get(id digest) *verified {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, _ := t.tokens.Get(id)
	return v
}

func (t *verifiedTokens) add(id digest, v *verified) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens.Remove(id) // LRU.Add would replace the value without calling the eviction function
	t.tokens.Add(id, v)
	for t.bytes += v.bytes; t.bytes > maxVerifiedBytes; {
		t.tokens.RemoveOldest()
	}
}

func (t *verifiedTokens) remove(id digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens.Remove(id)
}
