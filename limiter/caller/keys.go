package caller

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// KeySource returns the public keys that verify tokens. It is safe for concurrent use.
type KeySource interface {
	// Key returns the key for tokens with this key ID and algorithm at the time now. The error wraps
	// ErrInvalidCredential if there is no such key, or ErrUnverified if the keys could not be read. A returned
	// key MUST NOT change later. While a key stays the same, Key SHOULD return the same pointer, because a
	// Verifier verifies a repeated token again if the pointer differs.
	Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error)
}

// KeySet is an immutable JSON Web Key Set (RFC 7517). It implements KeySource.
type KeySet struct{ keys []jose.JSONWebKey }

// These constants bound a key set. An RSA key has at least 2048 bits (RFC 7518, 3.3). go-jose rejects
// keys of more than 4096 bits.
const (
	maxKeySet = 1 << 20
	maxKeys   = 100
	minRSA    = 2048 // bits
)

// ParseKeySet parses a key set. It ignores keys that are not for signatures and keys of an unknown form
// (RFC 7517, 5). A secret or private key is an error, because it must not be published. An empty list is
// valid: an issuer withdraws all its keys with it, and no token is valid then. A document without a list
// is an error. A list that contains only ignored keys is an error too.
func ParseKeySet(document []byte) (*KeySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New("key set: keys: missing (want a list of keys)")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("key set: keys: too many (got %d, want at most %d)", len(set.Keys), maxKeys)
	}
	s := &KeySet{}
	for i, document := range set.Keys {
		var key jose.JSONWebKey
		switch err := json.Unmarshal(document, &key); {
		case err != nil:
		case !key.IsPublic():
			return nil, fmt.Errorf("key set: keys[%d]: not a public key", i)
		case key.Use == "" || key.Use == "sig":
			s.keys = append(s.keys, key)
		}
	}
	if len(s.keys) == 0 && len(set.Keys) > 0 {
		return nil, errors.New("key set: keys: no key for signatures")
	}
	return s, nil
}

// These errors are the reasons why no key fits a token. A newer key set can have an unknown key, but cannot resolve
// an ambiguity.
var (
	errUnknownKey = fmt.Errorf("%w: token signed with an unknown key", ErrInvalidCredential)
	errAmbiguous  = fmt.Errorf("%w: the token has no key ID, and several keys fit its algorithm", ErrInvalidCredential)
)

// Key implements KeySource. For a token without a key ID, it returns the only key that fits the algorithm. If several
// keys fit, the error says so.
func (s *KeySet) Key(_ context.Context, _ time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	var found *jose.JSONWebKey
	for i := range s.keys {
		key := &s.keys[i]
		if id != "" && key.KeyID != id || !fits(key, algorithm) {
			continue
		}
		if found != nil {
			return nil, errAmbiguous
		}
		found = key
	}
	if found == nil {
		return nil, errUnknownKey
	}
	return found, nil
}

// curveAlgorithms has the algorithm of each curve (RFC 7518, 3.4).
var curveAlgorithms = map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}

// fits reports whether a key can be used with an algorithm. The key must have the type of the
// algorithm (RFC 7518, 3.1; RFC 8037, 3.1) and must not name another algorithm.
func fits(key *jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSA && (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS"))
	case *ecdsa.PublicKey:
		return algorithm == curveAlgorithms[public.Params().Name]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
