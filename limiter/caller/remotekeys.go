package caller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter/fresh"
)

// keysPolicy is how often an issuer is read and how long its keys are used. An unknown key ID
// begins a read keysCooldown after the one before; every keysSpare one read may begin earlier.
var keysPolicy = fresh.Policy{
	Fresh:    time.Hour,
	Stale:    24 * time.Hour,
	Cooldown: keysCooldown,
	Retry:    3 * time.Second,
	Timeout:  keysTimeout,
}

const (
	keysCooldown = 30 * time.Second
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
	set    *fresh.Value[*KeySet]
	load   fresh.Load[*KeySet]
	spared time.Time // of the last read that began before the cooldown ended; read and written by spare
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
func NewFetchedKeys(fetch Fetch) *RemoteKeys {
	return &RemoteKeys{
		set: fresh.New[*KeySet](&keysPolicy),
		load: func(ctx context.Context) (set *KeySet, copied time.Time, err error) {
			document, copied, err := fetch(ctx)
			if err == nil {
				set, err = ParseKeySet(document)
			}
			return set, copied, err
		},
	}
}

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
	set, err := r.keySet(ctx, now, id, algorithm)
	switch {
	case errors.Is(err, fresh.ErrExpired):
		return nil, fmt.Errorf("%w: %w", ErrUnverified, errOldCopy)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	key, err := set.Key(ctx, now, id, algorithm)
	if failed := r.set.Err(); failed != nil && errors.Is(err, errUnknownKey) { // it may be a new key
		return nil, fmt.Errorf("%w: %w", ErrUnverified, failed)
	}
	return key, err
}

var errOldCopy = fmt.Errorf("key set: the copy is more than %s old: the function that copies it failed", keysPolicy.Stale)

// keySet returns the keys at now, newer ones than those of before if they lack the key.
func (r *RemoteKeys) keySet(ctx context.Context, now time.Time, id, algorithm string) (*KeySet, error) {
	set, err := r.set.Peek(now)
	if err == nil {
		_, err = set.Key(ctx, now, id, algorithm)
	}
	if errors.Is(err, errUnknownKey) {
		return r.set.Renew(ctx, now, r.load, func(age time.Duration) bool { return age >= keysCooldown || r.spare(now) })
	}
	return r.set.Get(ctx, now, r.load)
}

// spare reports whether a read may begin before the cooldown ends: an issuer that has just added
// a key would otherwise have to wait. It spends the permission.
func (r *RemoteKeys) spare(now time.Time) bool {
	if !r.spared.IsZero() && now.Sub(r.spared).Abs() < keysSpare {
		return false
	}
	r.spared = now
	return true
}
