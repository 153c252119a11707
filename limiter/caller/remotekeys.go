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

// keysTimeout bounds a fetch, and maxRedirects its redirections.
const (
	keysTimeout  = 2 * time.Second
	maxRedirects = 3
)

// RemoteKeys is the key set of an issuer, which is fetched when a request needs it and kept. It
// implements KeySource.
//
// A key that the issuer withdraws stays valid for up to an hour. If a fetch fails, the previous keys
// stay valid until they are a day old. After that, no token can be checked, and the error wraps
// ErrUnverified. The age of a copy is the age of its original.
//
// A token with an unknown key ID begins a fetch, at most every half minute and once more in ten
// minutes. Until then such a token is invalid, because everyone can invent key IDs. So an issuer
// should publish a key a minute before it signs with it.
//
// There is one fetch at a time, and it continues after the request that started it. A request with an
// unknown key waits for it, and so does the first request after the keys became too old. All other
// requests use the previous keys.
type RemoteKeys struct {
	set    *fresh.Value[*KeySet]
	load   fresh.Load[*KeySet]
	spared time.Time // of the last read that began before the cooldown ended; read and written by spare
}

// Fetch returns the document of a key set, from the issuer or from a copy. copied is when the issuer
// had the document; the zero Time means now. It is safe for concurrent use.
type Fetch func(ctx context.Context) (document []byte, copied time.Time, err error)

// NewRemoteKeys returns the key set at an https URL, or at an http URL on this machine. Redirections
// from https to http are errors.
func NewRemoteKeys(address string) (*RemoteKeys, error) {
	fetch, err := FetchFrom(address)
	if err != nil {
		return nil, err
	}
	return NewFetchedKeys(fetch), nil
}

// NewFetchedKeys returns the key set that fetch returns. A fetch has two seconds.
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

// FetchFrom returns a Fetch of the document at a URL that NewRemoteKeys accepts. It reads up to
// 1 MiB, in at most two seconds.
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

// isTrusted reports whether no third party can change a document on its way from u.
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
		return fmt.Errorf("key set: too many redirections (want at most %d)", maxRedirects)
	case !isTrusted(r.URL) || via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("key set: redirection to a URL without https")
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
	if failed := r.set.Err(); failed != nil && errors.Is(err, errUnknownKey) { // the issuer may have added the key meanwhile
		return nil, fmt.Errorf("%w: %w", ErrUnverified, failed)
	}
	return key, err
}

var errOldCopy = fmt.Errorf("key set: the copy is more than %s old: the function that copies it failed", keysPolicy.Stale)

// keySet returns the keys at now. If the previous keys do not contain the key, it tries to fetch newer
// ones.
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

// spare reports whether a read may begin before the cooldown ends. Otherwise an issuer that has just
// added a key would have to wait. The permission is then used up.
func (r *RemoteKeys) spare(now time.Time) bool {
	if !r.spared.IsZero() && now.Sub(r.spared).Abs() < keysSpare {
		return false
	}
	r.spared = now
	return true
}
