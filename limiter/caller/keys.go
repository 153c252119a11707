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

// KeySource finds the public keys of tokens. It is safe for concurrent use.
type KeySource interface {
	// Key returns the key of tokens with this key ID and algorithm at now. The error wraps
	// ErrInvalidCredential if there is no such key, or ErrUnverified if the keys could not be read.
	Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error)
}

// KeySet is a JSON Web Key Set (RFC 7517) that does not change. It implements KeySource.
type KeySet struct{ keys []jose.JSONWebKey }

// Bounds of a key set. An RSA key has at least 2048 bits (RFC 7518, 3.3); go-jose reads none
// of more than 4096.
const (
	maxKeySet = 1 << 20
	maxKeys   = 100
	minRSA    = 2048 // bits
)

// ParseKeySet reads a key set. It leaves out keys that are not for signatures and keys of an unknown
// form (RFC 7517, 5). A secret or private key is an error, because nobody should publish one. An empty
// list of keys is valid: with it an issuer withdraws all keys, and no token is valid. A document
// without a list is an error, and so is a list of which every key is left out.
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

// The reasons why a token has no key. A newer key set may contain an unknown key, but it cannot
// resolve an ambiguity.
var (
	errUnknownKey = fmt.Errorf("%w: token signed with an unknown key", ErrInvalidCredential)
	errAmbiguous  = fmt.Errorf("%w: the token has no key ID, and several keys fit", ErrInvalidCredential)
)

// Key implements KeySource. For a token without a key ID it returns the key that fits the algorithm,
// if there is only one.
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

// fits reports whether a key is for an algorithm: it is of the algorithm's type (RFC 7518, 3.1; RFC
// 8037, 3.1) and names no other algorithm.
func fits(key *jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSA && (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS"))
	case *ecdsa.PublicKey:
		return algorithm == map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[public.Params().Name]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
