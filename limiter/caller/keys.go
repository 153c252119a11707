package caller

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// KeySource has the public keys that tokens are signed with.
type KeySource interface {
	// Key returns the key for tokens with this key id and algorithm at now. The error
	// wraps ErrInvalidCredential if there is no such key,
	// ErrUnverified if that cannot be told.
	Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error)
}

// KeySet is a JSON Web Key Set (RFC 7517) that does not change. It is a KeySource.
type KeySet struct{ keys []jose.JSONWebKey }

// Bounds of a key set. An RSA key has at least 2048 bits (RFC 7518, 3.3); go-jose reads none
// of more than 4096.
const (
	maxKeySet = 1 << 20
	maxKeys   = 100
	minRSA    = 2048 // bits
)

// ParseKeySet reads a key set. Keys that are not for signatures are left out, and so are
// those that are not understood (RFC 7517, 5); a secret or private key is an error, for
// it has no business here. An empty list of keys is a key set by which no token is good: so
// an issuer withdraws them all. A document without a list is an error, and so is one whose
// keys are all left out.
func ParseKeySet(document []byte) (*KeySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New("key set: there is no list of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("key set: %d keys, at most %d are allowed", len(set.Keys), maxKeys)
	}
	s := &KeySet{}
	for i, document := range set.Keys {
		var key jose.JSONWebKey
		switch err := json.Unmarshal(document, &key); {
		case err != nil:
		case !key.IsPublic():
			return nil, fmt.Errorf("key set: keys[%d] is not a public key", i)
		case key.Use == "" || key.Use == "sig":
			s.keys = append(s.keys, key)
		}
	}
	if len(s.keys) == 0 && len(set.Keys) > 0 {
		return nil, errors.New("key set: no key for signatures")
	}
	return s, nil
}

// Why a token has no key. A key set that is newer may have one that is unknown; it cannot
// tell which of two keys was meant.
var (
	errUnknownKey = fmt.Errorf("%w: token signed with an unknown key", ErrInvalidCredential)
	errAmbiguous  = fmt.Errorf("%w: token does not say which key signed it", ErrInvalidCredential)
)

// Key implements KeySource. A token without a key id is checked against the only key
// that can have signed it, if there is just one.
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

// fits reports whether a key is for an algorithm: it says so, or does not say, and is of
// the algorithm's type (RFC 7518, 3.1; RFC 8037, 3.1).
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

// How long fetched keys are used, and for how long if no newer ones can be had; how long an
// issuer is left alone: whatever key ids tokens come with, and while there are no keys and it
// has not answered; and how often one fetch more may come sooner, for a key id that is unknown.
const (
	keysFresh    = time.Hour
	keysStale    = 24 * time.Hour
	keysCooldown = 30 * time.Second
	keysRetry    = 3 * time.Second
	keysSpare    = 10 * time.Minute
)

// keysTimeout is how long fetching keys may take, and maxRedirects how often an issuer may
// send elsewhere.
const (
	keysTimeout  = 2 * time.Second
	maxRedirects = 3
)

// RemoteKeys is the key set of an issuer, fetched when it is needed and kept. It is a
// KeySource, safe for concurrent use.
//
// A key that the issuer withdraws is believed for an hour more. If fetching fails, the keys
// that were fetched before stay valid until they are a day old: then it cannot be told whether
// any token is good, which is ErrUnverified. The age of a copy is that of what it is
// a copy of.
//
// A token with a key id that is unknown begins a fetch, at most every half minute and once more
// in ten minutes. Meanwhile such a token is invalid, for anybody can make up key ids: an issuer
// should publish a key a minute before it signs with it.
//
// There is one fetch at a time, and it does not end with the request that began it. Who
// needs a key that is not there waits for it, and so does whoever finds the keys too old
// first; all others are served by the keys that there are.
type RemoteKeys struct {
	fetch Fetch

	mu       sync.Mutex
	set      *KeySet
	read     time.Time     // when set was fetched
	issued   time.Time     // when the issuer had it: the same, or earlier if it is a copy
	tried    time.Time     // of the last attempt that has ended
	spared   time.Time     // when an unknown key id last began one that had not been due
	failed   error         // of that attempt
	fetching chan struct{} // closed at the end of the attempt under way; nil without one
}

// Fetch returns the document of a key set from wherever it is: at its issuer, or where a
// copy is kept, and then when the issuer had it; the zero Time means now. It is safe for
// concurrent use.
type Fetch func(ctx context.Context) (document []byte, copied time.Time, err error)

// NewRemoteKeys returns the key set at an https URL, or an http one on this machine.
// Redirections from https stay there.
func NewRemoteKeys(address string) (*RemoteKeys, error) {
	fetch, err := FetchFrom(address)
	if err != nil {
		return nil, err
	}
	return NewFetchedKeys(fetch), nil
}

// NewFetchedKeys returns the key set that fetch fetches, in two seconds or not at all.
func NewFetchedKeys(fetch Fetch) *RemoteKeys { return &RemoteKeys{fetch: fetch} }

// FetchFrom returns what fetches the document at a URL that is good for NewRemoteKeys, up
// to 1 MiB of it, in at most two seconds.
func FetchFrom(address string) (Fetch, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key set: %w", err)
	case !isTrusted(u):
		return nil, fmt.Errorf("key set: got %q, want an https URL", address)
	}
	client := &http.Client{Timeout: keysTimeout, CheckRedirect: checkRedirect}
	return func(ctx context.Context) (document []byte, _ time.Time, err error) {
		document, err = fetch(ctx, client, address)
		return document, time.Time{}, err
	}, nil
}

func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("key set: status %d", response.StatusCode)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxKeySet))
}

// isTrusted reports whether nobody on the way can change what is read from u.
func isTrusted(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("key set: more than %d redirections", maxRedirects)
	case !isTrusted(r.URL) || via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("key set: redirected to what is no https URL")
	}
	return nil
}

// Key implements KeySource.
func (r *RemoteKeys) Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	key, fetch, err := r.look(ctx, now, id, algorithm)
	if fetch == nil {
		return key, err
	}
	if gone := wait(ctx, fetch); gone != nil {
		if err == nil {
			return key, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrUnverified, gone)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known(ctx, now, id, algorithm)
}

// wait waits until done is closed. The error is that of ctx, if it ends before.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // it was ready too, and select takes either
		return nil
	default:
		return ctx.Err()
	}
}

// look returns the key, as far as it is known, and the fetch to wait for, nil if there is
// none. It begins one if it is time.
func (r *RemoteKeys) look(ctx context.Context, now time.Time, id, algorithm string) (key *jose.JSONWebKey, fetch <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, err = r.known(ctx, now, id, algorithm)
	certain := err == nil || errors.Is(err, errAmbiguous)
	switch {
	case certain && (r.fetching != nil || now.Sub(r.read) <= keysFresh):
		return key, nil, err
	case r.fetching == nil && (r.rested(now) || r.spare(now, err)):
		r.fetching = make(chan struct{})
		go r.refresh(context.WithoutCancel(ctx), now)
	}
	return key, r.fetching, err
}

// known returns a key of those that were fetched. r.mu is held.
func (r *RemoteKeys) known(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	switch {
	case r.set == nil:
		return nil, fmt.Errorf("%w: %w", ErrUnverified, r.failed)
	case now.Sub(r.issued) >= keysStale:
		return nil, fmt.Errorf("%w: %w", ErrUnverified, cmp.Or(r.failed, errOldCopy))
	}
	key, err := r.set.Key(ctx, now, id, algorithm)
	if errors.Is(err, errUnknownKey) && r.failed != nil { // it may be a new one
		return nil, fmt.Errorf("%w: %w", ErrUnverified, r.failed)
	}
	return key, err
}

var errOldCopy = fmt.Errorf("key set: the copy of it is more than %s old: what copies it has failed", keysStale)

// rested reports whether the issuer may be asked again. An unknown key id is no reason to ask one
// that fails more often, for anybody can make one up. Requests that come together do
// not come in the order of their clocks. r.mu is held.
func (r *RemoteKeys) rested(now time.Time) bool {
	cooldown := keysCooldown
	if r.failed != nil && (r.set == nil || now.Sub(r.issued) >= keysStale) {
		cooldown = keysRetry
	}
	return r.tried.IsZero() || now.Sub(r.tried).Abs() >= cooldown
}

// spare reports whether the issuer may be asked before it has rested, because of an unknown key
// id: an issuer that has just put in a new key would otherwise have to wait. It spends the
// permission. r.mu is held.
func (r *RemoteKeys) spare(now time.Time, err error) bool {
	if !errors.Is(err, errUnknownKey) || !r.spared.IsZero() && now.Sub(r.spared).Abs() < keysSpare {
		return false
	}
	r.spared = now
	return true
}

// refresh fetches the keys.
func (r *RemoteKeys) refresh(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	var set *KeySet
	document, copied, err := r.fetch(ctx)
	if err == nil {
		set, err = ParseKeySet(document)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried, r.failed = now, err; err == nil {
		r.set, r.read, r.issued = set, now, now
		if !copied.IsZero() && copied.Before(now) {
			r.issued = copied
		}
	}
	close(r.fetching)
	r.fetching = nil
}
