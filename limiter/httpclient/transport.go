package httpclient

import (
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// These are the defaults of a Transport.
const (
	DefaultMaxWait  = 2 * time.Minute
	DefaultRetries  = 4
	DefaultRefusals = 5
)

const (
	firstBackoff = time.Second
	lastBackoff  = 8 * time.Second
	// longestOutage bounds the Retry-After of a 503 for other requests, because it is only an estimate.
	longestOutage = 5 * time.Minute
	maxQuotas     = 1024
	maxRoutes     = 8192
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
// memory. Without GetBody, the request is sent once. A request that fails without a response is not
// repeated.
//
// RoundTrip returns the last refusal like any other response. If a request was not sent, the error is
// a WaitError or the error of its context.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// MaxWait bounds the sum of the waits of a request. 0 means DefaultMaxWait. The wait before the first
	// attempt is also bounded by half the time until the deadline of the context.
	MaxWait time.Duration
	// Retries bounds the repetitions of a request. 0 means DefaultRetries, and a negative number
	// means none.
	Retries int
	// Refusals is the number of consecutive refusals that opens the breaker. 0 or less means
	// DefaultRefusals.
	Refusals int

	once     sync.Once
	base     http.RoundTripper
	maxWait  time.Duration
	executor failsafe.Executor[attempt]
	refusals int
	seed     maphash.Seed

	mu     sync.Mutex
	quotas map[uint64]*quota // by hash
	routes map[uint64]uint64 // keys of quotas, by the hash of a method and a path, or the folder of a path
}

// attempt is the result of sending a request once.
type attempt struct {
	response *http.Response
	again    bool          // the request must be repeated
	wait     time.Duration // the wait before the repetition
}

func (t *Transport) open() {
	t.base, t.maxWait = t.Base, t.MaxWait
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.maxWait <= 0 {
		t.maxWait = DefaultMaxWait
	}
	retries, refusals := t.Retries, t.Refusals
	if retries == 0 {
		retries = DefaultRetries
	}
	if refusals <= 0 {
		refusals = DefaultRefusals
	}
	t.refusals, t.seed, t.quotas, t.routes = refusals, maphash.MakeSeed(), map[uint64]*quota{}, map[uint64]uint64{}
	t.executor = failsafe.With(retrypolicy.NewBuilder[attempt]().
		HandleIf(func(a attempt, err error) bool { return err == nil && a.again }).
		WithMaxRetries(max(retries, 0)).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[attempt]) time.Duration { return e.LastResult().wait }).
		OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[attempt]) { discard(e.LastResult().response) }).
		ReturnLastFailure().
		Build())
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(t.open)
	c := &call{Transport: t, request: r}
	last, err := t.executor.WithContext(r.Context()).Get(c.send)
	if err != nil {
		if c.response != nil { // the context ended while a request waited for its repetition
			_ = c.response.Body.Close()
		}
		return nil, err
	}
	return last.response, nil
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.open)
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

type call struct {
	*Transport
	request  *http.Request
	response *http.Response // the last response
	quota    *quota
	sent     int           // number of attempts
	waited   time.Duration // total wait before and between attempts
}

// send waits for the turn of the request and sends it once.
func (c *call) send() (attempt, error) {
	if err := c.enter(); err != nil {
		c.closeBody()
		return attempt{}, err
	}
	sent := time.Now()
	var response *http.Response
	request, err := c.next()
	if err == nil {
		c.response = nil                          // the previous response is already closed
		response, err = c.base.RoundTrip(request) //nolint:bodyclose // the caller of RoundTrip closes it
	}
	if err != nil {
		c.quota.forget()
		return attempt{}, err
	}
	c.response = response
	now := time.Now()
	a := adviceOf(response, now)
	result := attempt{response: response}
	if a.refused {
		backoff := min(firstBackoff<<min(c.sent-1, 10), lastBackoff)
		result.wait = max(a.wait, 0) + rand.N(backoff)
		if a.wait < 0 {
			a.wait = result.wait
		}
		result.again = c.mayRepeat(response.StatusCode, now, result.wait)
		c.waited += result.wait
	}
	if a.refused && a.name == "" && response.StatusCode == http.StatusServiceUnavailable {
		a.name, a.wait = c.request.URL.Path, min(a.wait, longestOutage)
	}
	c.learn(sent, a, now)
	return result, nil
}

// learn updates the quota that the response names, and that of the request.
func (c *call) learn(sent time.Time, a advice, now time.Time) {
	named := c.quota
	if a.name != "" {
		named = c.Transport.quota(c.request, a.name)
	}
	c.quota.leave(named != c.quota)
	named.learn(sent, a, now, c.maxWait)
	c.quota = named
}

// enter waits for the turn of the request in its quota.
func (c *call) enter() error {
	ctx, begun := c.request.Context(), time.Now()
	patience := c.maxWait - c.waited
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, deadline.Sub(begun)/2)
	}
	defer func() { c.waited += time.Since(begun) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.quota = c.Transport.quota(c.request, "") // a response can have named another one
		wait, refused := c.quota.turn(time.Now(), begun.Add(patience))
		switch {
		case refused != nil:
			refused.Host = c.request.URL.Host
			return refused
		case wait <= 0:
			return nil
		}
		turn := time.NewTimer(wait)
		select {
		case <-turn.C:
		case <-ctx.Done():
			turn.Stop()
		}
	}
}

// next returns the request for the next attempt. A repetition gets a new body.
func (c *call) next() (*http.Request, error) {
	c.sent++
	if c.sent == 1 || c.request.GetBody == nil {
		return c.request, nil
	}
	body, err := c.request.GetBody()
	if err != nil {
		return nil, err
	}
	r := c.request.WithContext(c.request.Context())
	r.Body = body
	return r, nil
}

// closeBody closes the body of a request that was not sent. A RoundTripper must do this.
func (c *call) closeBody() {
	if c.sent == 0 && c.request.Body != nil {
		_ = c.request.Body.Close()
	}
}

// idempotent lists the idempotent methods (RFC 9110, 9.2.2).
var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete}

// mayRepeat reports whether the request may be repeated after a wait. status is the status of the
// refusal.
func (c *call) mayRepeat(status int, now time.Time, wait time.Duration) bool {
	r := c.request
	harmless := status == http.StatusTooManyRequests || slices.Contains(idempotent, r.Method) || r.Header.Get("Idempotency-Key") != ""
	if bodiless := r.Body == nil || r.Body == http.NoBody; !harmless || !bodiless && r.GetBody == nil {
		return false
	}
	deadline, ok := r.Context().Deadline()
	return c.waited+wait <= c.maxWait && (!ok || now.Add(wait).Before(deadline))
}

// discard closes a response. It reads a short body to the end, so that the connection can be reused.
func discard(r *http.Response) {
	if r.ContentLength >= 0 && r.ContentLength <= maxDrained {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
	_ = r.Body.Close()
}

// quota returns the quota of a request. If name is "", it is that of earlier responses to the path, or to other paths of
// its folder, or else that of the host and the credential. A name is kept for later requests.
func (t *Transport) quota(r *http.Request, name string) *quota {
	folder, _ := path.Split(r.URL.Path)
	key := t.hash(0, r.URL.Scheme, r.URL.Host, r.Host, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
	own, beside := t.hash(key, r.Method, r.URL.Path), t.hash(key, r.Method, folder, "*")
	t.mu.Lock()
	defer t.mu.Unlock()
	if name != "" {
		named := t.hash(key, name)
		put(t.routes, own, named, maxRoutes)
		if name != r.URL.Path { // all paths of a folder do not share an outage
			put(t.routes, beside, named, maxRoutes)
		}
	}
	if known, ok := t.routes[own]; ok {
		key = known
	} else if known, ok := t.routes[beside]; ok {
		key = known
	}
	q := t.quotas[key]
	if q == nil {
		q = newQuota(t.refusals)
		put(t.quotas, key, q, maxQuotas)
	}
	return q
}

// hash returns the key of texts within the scope of the key above.
func (t *Transport) hash(above uint64, texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	maphash.WriteComparable(&h, above)
	for _, text := range texts {
		maphash.WriteComparable(&h, text)
	}
	return h.Sum64()
}

// put sets the value of a key in a map. If the map is full, put first deletes any one entry.
func put[V any](m map[uint64]V, key uint64, value V, capacity int) {
	if _, ok := m[key]; !ok && len(m) >= capacity {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[key] = value
}
