package polite

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

// The defaults of a Transport.
const (
	DefaultMaxWait  = 2 * time.Minute
	DefaultRetries  = 4
	DefaultRefusals = 5
)

const (
	firstBackoff = time.Second
	lastBackoff  = 8 * time.Second
	// longestOutage is after what time a path is asked again that is unavailable, whatever it
	// said: whoever repairs it seldom knows when.
	longestOutage = 5 * time.Minute
	// maxDrained is how much of the body of a refusal is read, so that its connection can
	// be used again.
	maxDrained = 64 << 10
)

// Transport is an http.RoundTripper that keeps to the rate limits of the APIs that it calls;
// the package says how. The zero value is ready for use. Do not change a Transport that is in
// use, nor copy it; it is safe for concurrent use.
//
// It repeats what is refused if that does no harm: after 429, which says that nothing was done,
// any request, and after 503 those of an idempotent method or with an Idempotency-Key. A body is
// replayed by GetBody, which requests of http.NewRequest have whose body is in memory; a request that
// has a body but no GetBody is sent once. It does not repeat what failed without an answer.
//
// The refusal that is left in the end is returned as any other response. A request
// that is not sent is a WaitError, or the error of its context.
type Transport struct {
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// MaxWait is how long a request waits in all; 0 means DefaultMaxWait. While it has not been
	// sent it also waits no longer than half the time that its context has.
	MaxWait time.Duration
	// Retries is how often a request is repeated at most; 0 means DefaultRetries, and a negative
	// number never.
	Retries int
	// Refusals is how many there are in a row until the breaker opens; 0 and less mean
	// DefaultRefusals.
	Refusals int

	once     sync.Once
	base     http.RoundTripper
	maxWait  time.Duration
	executor failsafe.Executor[attempt]
	book     *book
}

// attempt is how one sending of a request ended.
type attempt struct {
	response *http.Response
	again    bool          // it is to be repeated
	wait     time.Duration // after this
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
		if c.response != nil { // the context ended when there was an answer
			_ = c.response.Body.Close()
		}
		return nil, err
	}
	return last.response, nil
}

// CloseIdleConnections closes those of Base, for the method of http.Client that has this name.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.open)
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// call is a request until its last answer.
type call struct {
	*Transport
	request  *http.Request
	response *http.Response // the last
	route    route
	sent     int           // how often
	waited   time.Duration // for its turn, and after refusals
}

// send sends the request once, when it may be.
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
	response, err := c.base.RoundTrip(request) //nolint:bodyclose // whoever gets it closes it
	if err != nil {
		c.response = nil // the one before is closed
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

// enter waits for the request's turn, by the quota that is known to count it then.
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
		if refusal, ok := err.(*WaitError); ok { //nolint:errorlint // it is as enter made it
			refusal.Host = c.request.URL.Host
		}
		if err != nil || c.book.find(c.route) == q {
			return q, t, err
		}
		q.forget(t) // another answer has named the quota meanwhile
	}
}

// next returns the request to be sent: with a new body if there was one.
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

// closeBody closes the body of a request that is not sent at all, as a RoundTripper must.
func (c *call) closeBody() {
	if c.sent == 0 && c.request.Body != nil {
		_ = c.request.Body.Close()
	}
}

// learn tells the quotas of an answer: that which counted the request, and that by which it went.
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
	case a.refused: // which is neither a success nor a failure of q
		q.forget(t)
	default:
		q.learn(t, advice{}, true, now)
	}
	named.learn(t, a, named == q, now)
}

// idempotent are the methods that have the same effect however often (RFC 9110, 9.2.2).
var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete}

// mayRepeat reports whether the request may be repeated after a wait, when it was refused with a status.
func (c *call) mayRepeat(status int, now time.Time, wait time.Duration) bool {
	r := c.request
	harmless := status == http.StatusTooManyRequests || slices.Contains(idempotent, r.Method) || r.Header.Get("Idempotency-Key") != ""
	if bodiless := r.Body == nil || r.Body == http.NoBody; !harmless || !bodiless && r.GetBody == nil {
		return false
	}
	deadline, ok := r.Context().Deadline()
	return c.waited+wait <= c.maxWait && (!ok || now.Add(wait).Before(deadline))
}

// discard lets go of a response: its connection can be used again if the body is short.
func discard(r *http.Response) {
	if r.ContentLength >= 0 && r.ContentLength <= maxDrained {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
	_ = r.Body.Close()
}
