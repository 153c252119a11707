package httpclient

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// These are the defaults of a Transport.
const (
	DefaultMaxWait = 2 * time.Minute
	DefaultRetries = 4
)

const (
	firstBackoff = time.Second
	lastBackoff  = 8 * time.Second
	maxBlocks    = 1024
	// maxDrained bounds the body of a refusal that is read to the end, so that the connection can be
	// reused.
	maxDrained = 64 << 10
)

// Transport is an http.RoundTripper that observes the rate limits of the APIs that it calls. The
// package documentation describes how. The zero value is ready for use. Do not change or copy a
// Transport after its first use. It is safe for concurrent use.
//
// It repeats a refused request if a repetition is safe. After a 429 the API has done nothing, so any
// request may be repeated. After a 503 a request may be repeated if it has an idempotent method or an
// Idempotency-Key. A request with a body also needs GetBody, which http.NewRequest sets for a body in
// memory. A request that fails without a response is not repeated.
//
// RoundTrip returns the last refusal like any other response. If a request was not sent, the error is
// a WaitError or the error of its context.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// MaxWait bounds the time from the start of a request to the end of its last wait. A wait also ends before the
	// deadline of the context. 0 or less means DefaultMaxWait.
	MaxWait time.Duration
	// Retries bounds the repetitions of a request. 0 means DefaultRetries, and a negative number
	// means none.
	Retries int
	// Forbidden makes a 403 a refusal if it has Retry-After or an exhausted quota, as the API of GitHub sends it. Like a 429,
	// it means that the API has done nothing.
	Forbidden bool

	once   sync.Once
	seed   maphash.Seed
	blocks *lru.Cache[uint64, block]
}

// block is a time without requests of a quota.
type block struct {
	until time.Time // as the API announced it
	probe time.Time // when a request is sent in any case, because the API can be wrong
}

// WaitError is the error of a request that was not sent, because the API would refuse it for longer than the request may
// wait. An http.Client wraps the error in a *url.Error; use errors.As.
type WaitError struct {
	Host string        // host of the request
	Wait time.Duration // time from now until the API announced to have room
}

// Error implements error.
func (e *WaitError) Error() string {
	return fmt.Sprintf("httpclient: the quota of %s is exhausted; retry in %s", e.Host, e.Wait.Round(time.Millisecond))
}

func (t *Transport) open() {
	t.seed = maphash.MakeSeed()
	t.blocks, _ = lru.New[uint64, block](maxBlocks) // fails for a capacity below 1 only
	if t.MaxWait <= 0 {
		t.MaxWait = DefaultMaxWait
	}
	t.Base = cmp.Or(t.Base, http.DefaultTransport)
	t.Retries = cmp.Or(t.Retries, DefaultRetries)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(t.open)
	giveUp := time.Now().Add(t.MaxWait)
	if deadline, ok := r.Context().Deadline(); ok && deadline.Before(giveUp) {
		giveUp = deadline
	}
	for n := 0; ; n++ {
		if err := t.enter(r, giveUp); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
		answer, err := t.Base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		a := adviceOf(answer, now, t.Forbidden)
		pause := max(a.wait, 0) + rand.N(min(firstBackoff<<min(n, 10), lastBackoff))
		if a.refused && a.wait < 0 {
			a.wait = pause
		}
		t.learn(r, answer.StatusCode, a, now)
		if !a.refused || n >= t.Retries || !repeatable(r, answer.StatusCode) || !now.Add(pause).Before(giveUp) {
			return answer, nil
		}
		discard(answer)
		if err := sleep(r.Context(), pause); err != nil {
			return nil, err
		}
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			r = r.WithContext(r.Context())
			r.Body = body
		}
	}
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.open)
	if base, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// enter waits until no quota of the request is blocked.
func (t *Transport) enter(r *http.Request, giveUp time.Time) error {
	for {
		now, longest := time.Now(), block{}
		for _, key := range t.scopes(r) {
			if b, ok := t.blocks.Get(key); ok && b.probe.After(now) && b.until.After(longest.until) {
				longest = b
			}
		}
		switch {
		case longest.until.IsZero():
			return nil
		case !longest.until.Before(giveUp):
			return &WaitError{r.URL.Host, longest.until.Sub(now)}
		}
		if err := sleep(r.Context(), min(longest.until.Sub(now)+rand.N(firstBackoff), giveUp.Sub(now))); err != nil {
			return err
		}
	}
}

// learn blocks the quota that a response names.
func (t *Transport) learn(r *http.Request, status int, a advice, now time.Time) {
	if a.wait < 0 {
		return
	}
	scopes := t.scopes(r)
	key := scopes[0]
	switch {
	case a.named:
		key = scopes[1]
	case status == http.StatusServiceUnavailable:
		key = scopes[2]
	}
	b := block{until: now.Add(a.wait), probe: now.Add(min(a.wait, t.MaxWait))}
	if known, ok := t.blocks.Peek(key); !ok || b.until.After(known.until) || !known.probe.After(now) {
		t.blocks.Add(key, b)
	}
}

// scopes returns the keys of the quotas of a request: of the host and the credential, also of the folder of the path, and
// also of the path and the method.
func (t *Transport) scopes(r *http.Request) [3]uint64 {
	key := func(kind, place string) uint64 {
		return maphash.Comparable(t.seed, [...]string{r.URL.Scheme, r.URL.Host, r.Host, r.Header.Get("Authorization"),
			r.Header.Get("X-Api-Key"), kind, place})
	}
	folder, _ := path.Split(r.URL.Path)
	return [3]uint64{key("host", ""), key("folder", folder), key("own "+r.Method, r.URL.Path)}
}

// idempotent lists the idempotent methods (RFC 9110, 9.2.2).
var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete}

// repeatable reports whether a request may be repeated after a refusal with this status.
func repeatable(r *http.Request, status int) bool {
	harmless := status != http.StatusServiceUnavailable || slices.Contains(idempotent, r.Method) || r.Header.Get("Idempotency-Key") != ""
	return harmless && (r.Body == nil || r.Body == http.NoBody || r.GetBody != nil)
}

// discard closes a response. It reads a short body to the end, so that the connection can be reused.
func discard(r *http.Response) {
	if r.ContentLength >= 0 && r.ContentLength <= maxDrained {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
	_ = r.Body.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
