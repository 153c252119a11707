package httpclient

import (
	"io"
	"math/rand/v2"
	"net/http"
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
	// longestOutage bounds the Retry-After of a 503 that names no quota, because such a Retry-After is
	// only an estimate.
	longestOutage = 5 * time.Minute
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
	book     *book
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
	t.book = newBook(t.maxWait, refusals)
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
	c := &call{Transport: t, request: r, route: t.book.route(r)}
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
	route    route
	sent     int           // number of attempts
	waited   time.Duration // total wait before and between attempts
}

// send waits for the turn of the request and sends it once.
func (c *call) send() (attempt, error) {
	q, t, err := c.enter()
	if err != nil {
		c.closeBody()
		return attempt{}, err
	}
	request, err := c.next()
	if err != nil {
		q.forget(t)
		return attempt{}, err
	}
	response, err := c.base.RoundTrip(request) //nolint:bodyclose // the caller of RoundTrip closes it
	if err != nil {
		c.response = nil // the previous response is already closed
		q.forget(t)
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
	c.learn(q, t, a, now)
	return result, nil
}

// enter waits for the turn of the request in its quota. The quota can change while it waits.
func (c *call) enter() (*quota, ticket, error) {
	ctx, begun := c.request.Context(), time.Now()
	patience := c.maxWait - c.waited
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, deadline.Sub(begun)/2)
	}
	defer func() { c.waited += time.Since(begun) }()
	for {
		q := c.book.find(c.route)
		t, err := q.enter(ctx, begun.Add(patience))
		if refusal, ok := err.(*WaitError); ok { //nolint:errorlint // enter does not wrap it
			refusal.Host = c.request.URL.Host
		}
		if err != nil || c.book.find(c.route) == q {
			return q, t, err
		}
		q.forget(t) // a response assigned the route to another quota while this request waited
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

// learn updates the quota that the response names and the quota that issued the ticket.
func (c *call) learn(q *quota, t ticket, a advice, now time.Time) {
	switch {
	case a.name != "":
		c.book.assign(c.route, a.name)
	case a.refused && c.response.StatusCode == http.StatusServiceUnavailable:
		c.book.part(c.route)
		a.wait = min(a.wait, longestOutage)
	default:
		c.book.rejoin(c.route, q)
	}
	named := c.book.find(c.route)
	switch {
	case named == q:
	case a.refused: // another quota refused the request, so for q this is neither a success nor a failure
		q.forget(t)
	default:
		q.learn(t, advice{}, true, now)
	}
	named.learn(t, a, named == q, now)
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
