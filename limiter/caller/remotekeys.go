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

	"github.com/weir-limits/weir/limiter/cache"
)

// keysPolicy sets how often the keys of an issuer are read and how long they are used. For an unknown
// key ID the next read begins at least keysCooldown after the previous read. Once in keysSpare, a read
// may begin earlier.
var keysPolicy = cache.Policy{
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

// keysTimeout bounds the duration of a fetch, and maxRedirects the number of its redirects.
const (
	keysTimeout  = 2 * time.Second
	maxRedirects = 3
)

// RemoteKeys is the key set of an issuer. It fetches the set when a request needs it and caches it. It implements
// KeySource.
//
// A key that the issuer withdraws stays valid for up to an hour. If a fetch fails, the previous keys stay valid until
// they are a day old. After that, no token can be verified, and the error wraps ErrUnverified. If the keys come from
// a copy, their age counts from the time at which the issuer had the document.
//
// A token with an unknown key ID starts a fetch, at most once in half a minute, plus once in ten minutes. Between
// fetches such a token is invalid, because anyone can invent key IDs. An issuer should therefore publish a key one
// minute before it signs tokens with this key.
//
// Only one fetch runs at a time. It continues after the end of the request that started it. Two kinds of requests
// wait for the fetch: requests with an unknown key ID, and the first request after the keys are too old. All other
// requests use the previous keys.
type RemoteKeys struct {
	set    *cache.Value[*KeySet]
	load   cache.Load[*KeySet]
	spared time.Time // last time at which spare permitted a read before the end of the cooldown
}

// Fetch returns the document of a key set, from the issuer or from a copy. copied is the time at
// which the issuer had the document; the zero Time means now. Fetch is safe for concurrent use.
type Fetch func(ctx context.Context) (document []byte, copied time.Time, err error)

// NewRemoteKeys returns the key set at an https URL, or at an http URL on this machine. A redirect
// from https to http is an error.
func NewRemoteKeys(address string) (*RemoteKeys, error) {
	fetch, err := FetchFrom(address)
	if err != nil {
		return nil, err
	}
	return NewFetchedKeys(fetch), nil
}

// NewFetchedKeys returns the key set that fetch returns. A fetch has a timeout of two seconds.
func NewFetchedKeys(fetch Fetch) *RemoteKeys {
	return &RemoteKeys{
		set: cache.New[*KeySet](&keysPolicy),
		load: func(ctx context.Context) (set *KeySet, copied time.Time, err error) {
			document, copied, err := fetch(ctx)
			if err == nil {
				set, err = ParseKeySet(document)
			}
			return set, copied, err
		},
	}
}

// FetchFrom returns a Fetch of the document at a URL that NewRemoteKeys accepts. It reads up to 1 MiB
// and has a timeout of two seconds.
func FetchFrom(address string) (Fetch, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("key set: %w", err)
	case !isTrusted(u):
		return nil, fmt.Errorf("key set: URL: not trusted (got %q, want https, or http on this machine)", address)
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

// isTrusted reports whether the connection to u protects a document from changes by third parties.
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
		return fmt.Errorf("key set: too many redirects (want at most %d)", maxRedirects)
	case !isTrusted(r.URL) || via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("key set: redirect to a URL without https")
	}
	return nil
}

// Key implements KeySource.
func (r *RemoteKeys) Key(ctx context.Context, now time.Time, id, algorithm string) (*jose.JSONWebKey, error) {
	set, err := r.keySet(ctx, now, id, algorithm)
	switch {
	case errors.Is(err, cache.ErrExpired):
		return nil, fmt.Errorf("%w: %w", ErrUnverified, errOldCopy)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	key, err := set.Key(ctx, now, id, algorithm)
	// The issuer may have added the key since the last successful fetch.
	if failed := r.set.Err(); failed != nil && errors.Is(err, errUnknownKey) {
		return nil, fmt.Errorf("%w: %w", ErrUnverified, failed)
	}
	return key, err
}

var errOldCopy = fmt.Errorf("key set: the copy is more than %s old; look at the log of the function that copies the issuer's keys",
	keysPolicy.Stale)

// keySet returns the keys at the time now. If the cached keys do not contain the wanted key, keySet tries to
// fetch a newer key set.
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

// spare reports whether a read may begin before the cooldown ends. With this read, a key that the issuer
// has just added is valid at once. spare returns true only once in keysSpare.
func (r *RemoteKeys) spare(now time.Time) bool {
	if !r.spared.IsZero() && now.Sub(r.spared).Abs() < keysSpare {
		return false
	}
	r.spared = now
	return true
}
