package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter"
)

// KeySource has the public keys that tokens are signed with.
type KeySource interface {
	// Key returns the key for tokens with this key id and algorithm at now. The error
	// wraps limiter.ErrInvalidCredential if there is no such key,
	// limiter.ErrUnverified if that cannot be told.
	Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error)
}

// KeySet is a JSON Web Key Set (RFC 7517) that does not change. It is a KeySource.
type KeySet struct{ keys []jose.JSONWebKey }

// Bounds of a key set.
const (
	maxKeySet = 1 << 20
	maxKeys   = 100
)

// ParseKeySet reads a key set. Keys that are not for signatures are left out; a
// secret or private key is an error, for it has no business here.
func ParseKeySet(document []byte) (*KeySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("key set: %d keys, at most %d are allowed", len(set.Keys), maxKeys)
	}
	s := &KeySet{}
	for i, key := range set.Keys {
		switch {
		case !key.IsPublic() || !key.Valid():
			return nil, fmt.Errorf("key set: keys[%d] is not a valid public key", i)
		case key.Use == "" || key.Use == "sig":
			s.keys = append(s.keys, key)
		}
	}
	if len(s.keys) == 0 {
		return nil, errors.New("key set: no key for signatures")
	}
	return s, nil
}

// Key implements KeySource. A token without a key id is checked against the only key
// of its algorithm, if there is just one.
func (s *KeySet) Key(_ context.Context, _ time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	var found *jose.JSONWebKey
	for i := range s.keys {
		key := &s.keys[i]
		if key.Algorithm != "" && key.Algorithm != algorithm || id != "" && key.KeyID != id {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: token does not say which key signed it", limiter.ErrInvalidCredential)
		}
		found = key
	}
	if found == nil {
		return nil, fmt.Errorf("%w: token signed with an unknown key", limiter.ErrInvalidCredential)
	}
	return found, nil
}

// How long fetched keys are used, and how long an issuer is left alone after an
// attempt, whatever key ids tokens come with.
const (
	keysFresh    = time.Hour
	keysCooldown = 30 * time.Second
)

// RemoteKeys is the key set of an issuer, fetched when it is needed and kept. It is a
// KeySource, safe for concurrent use. If the issuer does not answer, the keys that
// were fetched before stay valid.
type RemoteKeys struct {
	url    string
	client *http.Client

	mu      sync.Mutex
	set     *KeySet
	fetched time.Time // of set
	tried   time.Time
	failed  error // of the last attempt
}

// NewRemoteKeys returns the key set at an https URL, or an http one on this machine.
func NewRemoteKeys(address string) (*RemoteKeys, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key set: %w", err)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("key set: got %q, want an https URL", address)
	}
	return &RemoteKeys{url: address, client: &http.Client{Timeout: 2 * time.Second}}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Key implements KeySource.
func (r *RemoteKeys) Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set == nil || now.Sub(r.fetched) > keysFresh {
		r.refresh(ctx, now)
	}
	if r.set == nil {
		return nil, fmt.Errorf("%w: %w", limiter.ErrUnverified, r.failed)
	}
	key, err := r.set.Key(ctx, now, id, algorithm)
	if err != nil && r.refresh(ctx, now) {
		return r.set.Key(ctx, now, id, algorithm)
	}
	return key, err
}

// refresh fetches the keys, unless that was tried a moment ago. r.mu is held: callers
// who need a key that is not there wait for the one fetch.
func (r *RemoteKeys) refresh(ctx context.Context, now time.Time) bool {
	if since := now.Sub(r.tried); !r.tried.IsZero() && since >= 0 && since < keysCooldown {
		return false
	}
	r.tried = now
	set, err := r.fetch(ctx)
	if r.failed = err; err != nil {
		return false
	}
	r.set, r.fetched = set, now
	return true
}

func (r *RemoteKeys) fetch(ctx context.Context) (*KeySet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("key set: status %d", response.StatusCode)
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet))
	if err != nil {
		return nil, err
	}
	return ParseKeySet(document)
}
