package httplimit

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These are the header fields of an answer. HTTP ignores the case of field names: net/http writes its
// own canonical case, and other hosts can write these names.
const (
	RetryAfterField = "Retry-After"
	LimitField      = "X-RateLimit-Limit"
	RemainingField  = "X-RateLimit-Remaining"
	ResetField      = "X-RateLimit-Reset"
	PolicyField     = "RateLimit-Policy"
	RateLimitField  = "RateLimit"
	DegradedField   = "Weir-Degraded"
)

// Answer is a decision as an HTTP answer: the values of header fields and the problem of a refusal. A
// response omits a field with the value "". Create an Answer with NewAnswer.
type Answer struct {
	RetryAfter string // in whole seconds
	Limit      string // capacity in requests
	Remaining  string
	Reset      string // when the quota is full again, or a refused request may be repeated, in Unix seconds; "" for requests in flight
	Policy     string // value of RateLimit-Policy; "" if rules decided that are newer than the rules of this process
	RateLimit  string
	Degraded   string // the reason why the store did not decide (limiter.Reason); "" if it did

	// Over is the name of a limit in mode mark that the request exceeds. The client does not get it:
	// Serve passes it to the handler as OverField.
	Over string

	Problem *Problem // nil if the request is allowed

	// Refusal is the form of the body of the problem: rules.RefusalProblem, RefusalOpenAI or RefusalJSONRPC. "" means
	// RefusalProblem.
	Refusal string
	id      json.RawMessage // of the request in JSON-RPC; nil if it is not known
}

// jitterFrom is the longest wait without jitter, and maxJitter the longest jitter.
const (
	jitterFrom = 10 * time.Second
	maxJitter  = time.Minute
)

// NewAnswer returns the answer for the decision d. It extends a wait of more than ten seconds by up to 3
// %, and at most a minute. Callers that were refused at the same time then do not all return at the same time.
// The wait for the next period of a calendar is exact.
func NewAnswer(d limiter.Decision) Answer {
	a := Answer{Degraded: string(d.Reason)}
	if d.Over != nil {
		a.Over = d.Over.Name
	}
	switch {
	case d.Failed:
		a.RetryAfter, a.Problem = retrySoon, failure()
		return a
	case d.Reason == limiter.ReasonBusy:
		wait := max(1, seconds(d.RetryAfter))
		a.RetryAfter, a.Problem = strconv.FormatInt(wait, 10), busy(wait)
		return a
	case d.Limit == nil:
		if !d.Allowed {
			a.Problem = refusal("Too many requests.")
		}
		return a
	}
	wait, concurrent, reset := int64(-1), d.Limit.Count.Of == limiter.CountConcurrent, d.ResetAfter
	switch {
	case concurrent && !d.Allowed:
		wait = slotWait(&d)
		a.RetryAfter = strconv.FormatInt(wait, 10)
	case concurrent: // nobody knows when a request in flight will end
	case d.Allowed:
		wait = seconds(d.ResetAfter)
	case d.RetryAfter > 0:
		reset = d.RetryAfter
		if periodEnd(&d).IsZero() {
			reset = jitter(&d)
		}
		wait = max(1, seconds(reset))
		a.RetryAfter = strconv.FormatInt(wait, 10)
	}
	a.Limit = strconv.FormatInt(d.Capacity, 10)
	a.Remaining = strconv.FormatInt(d.Remaining, 10)
	if !concurrent {
		a.Reset = strconv.FormatInt(unixUp(d.At.Add(reset)), 10)
	}
	if !d.Superseded {
		a.Policy = policyField(d.Limit, d.At)
	}
	a.RateLimit = rateLimitField(d.Limit.Name, d.Remaining, wait)
	if !d.Allowed {
		a.Problem = overLimit(&d, wait)
	}
	return a
}

// periodEnd returns the instant, in the time zone of the limit, at which a refused request is allowed because a
// period ends. It is the zero time for other decisions, and if other parameters than the limit's own decided.
func periodEnd(d *limiter.Decision) time.Time {
	zone := d.Limit.Location()
	if zone == nil || d.Superseded || d.RetryAfter <= 0 {
		return time.Time{}
	}
	return d.At.Add(d.RetryAfter).In(zone)
}

func jitter(d *limiter.Decision) time.Duration {
	wait := d.RetryAfter
	if wait <= jitterFrom {
		return wait
	}
	longer := wait + rand.N(min(wait*3/100, maxJitter))
	if algo.KeepsInstants(d.Limit.Machine()) { // after a window without requests, such a limit has its full quota
		longer = max(wait, min(longer, d.Limit.Rate.Window))
	}
	return longer
}

// slotWait returns the wait after a refusal by a limit of requests in flight: 1 to 3 seconds. The number
// depends on the instant of the request, so that requests that were refused together do not return
// together.
func slotWait(d *limiter.Decision) int64 {
	const spread = 0x9e3779b97f4a7c15 // multiplicative hashing: close instants get unrelated products
	return 1 + int64(uint64(d.At.UnixNano())*spread>>33%3)
}

// unixUp returns t in Unix seconds, rounded up.
func unixUp(t time.Time) int64 {
	return t.Add(time.Second - 1).Unix()
}

// fieldNames are the names of the fields of an Answer. canonicalNames are their keys in an
// http.Header.
var (
	fieldNames     = [...]string{RetryAfterField, LimitField, RemainingField, ResetField, PolicyField, RateLimitField, DegradedField}
	canonicalNames = func() (names [len(fieldNames)]string) {
		for i, name := range fieldNames {
			names[i] = http.CanonicalHeaderKey(name)
		}
		return names
	}()
)

// groups are the fields that belong together, as indices of fieldNames.
var groups = [...][]int{{0}, {1, 2, 3}, {4, 5}, {6}}

// refuses reports whether a status is the refusal of a back end, which has fields of its own or none.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Yield removes from h the fields of an Answer that do not apply to the answer of a back end with this status: all fields if the
// back end refuses (429, 503), and otherwise those of a group that the back end has sent a field of. The function sent gets canonical
// names.
func Yield(h http.Header, status int, sent func(name string) bool) {
	for _, group := range groups {
		foreign := refuses(status)
		for _, i := range group {
			foreign = foreign || sent(canonicalNames[i])
		}
		for _, i := range group {
			if foreign {
				delete(h, canonicalNames[i])
			}
		}
	}
}

// AnswerOf returns the answer of an allowed request with the given values of the fields in [ExposedFields].
func AnswerOf(value func(field string) string) Answer {
	return Answer{RetryAfter: value(RetryAfterField), Limit: value(LimitField), Remaining: value(RemainingField), Reset: value(ResetField),
		Policy: value(PolicyField), RateLimit: value(RateLimitField), Degraded: value(DegradedField)}
}

// ExposedFields returns the names of all fields of an answer. A page of another origin can read the
// fields only if Access-Control-Expose-Headers lists them.
func ExposedFields() []string { return slices.Clone(fieldNames[:]) }

// values returns the values of the fields, in the order of their names.
func (a Answer) values() [len(fieldNames)]string {
	return [...]string{a.RetryAfter, a.Limit, a.Remaining, a.Reset, a.Policy, a.RateLimit, a.Degraded}
}

// Fields returns the name and value of each field that has a value.
func (a Answer) Fields() [][2]string {
	var set [][2]string
	for i, value := range a.values() {
		if value != "" {
			set = append(set, [2]string{fieldNames[i], value})
		}
	}
	return set
}

// SetHeader sets the fields of the answer in h.
func (a Answer) SetHeader(h http.Header) {
	all := a.values()
	set(h, &all)
}

// set makes the values those of the fields in h, without a copy.
func set(h http.Header, values *[len(fieldNames)]string) {
	for i, value := range values {
		if value != "" {
			h[canonicalNames[i]] = values[i : i+1 : i+1]
		}
	}
}

// Serve passes the request r to the handler next with the fields of the answer in the header of w. It removes those fields that do not
// apply to the answer of next, as Yield does.
func (a Answer) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a.serve(w, r, next, nil)
}

func (a Answer) serve(w http.ResponseWriter, r *http.Request, next http.Handler, pending *Pending) {
	c := &counted{ResponseWriter: w, own: a.values(), pending: pending, head: r.Method == http.MethodHead}
	set(w.Header(), &c.own)
	if pending != nil {
		c.serve(r, next)
		return
	}
	next.ServeHTTP(c, r)
	c.begin(http.StatusOK)
}

// Refuse writes the answer to a refused request with the status of its Problem. Without a Problem the
// status is 429.
func (a Answer) Refuse(w http.ResponseWriter) {
	a.SetHeader(w.Header())
	p := a.Problem
	if p == nil {
		p = refusal("Too many requests.")
	}
	form, body := p.Body(a.Refusal, a.id)
	w.Header().Set("Cache-Control", "no-store") // RFC 6585, 4
	w.Header().Set("Content-Type", form)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client may have disconnected
}

// The RateLimit fields follow draft-ietf-httpapi-ratelimit-headers-11, which can change. A field is a List of Strings with
// parameters (RFC 9651). The name of a limit needs no escaping.

// policyField returns the value of RateLimit-Policy: the quota, its unit if it is not requests, and the
// window in seconds. A quota of requests in flight has no window.
func policyField(l *limiter.Limit, at time.Time) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, l.Name...)
	b = append(b, `";q=`...)
	b = strconv.AppendInt(b, l.Rate.Requests, 10)
	switch l.Count.Of {
	case limiter.CountConcurrent:
		return string(append(b, `;qu="concurrent-requests"`...))
	case limiter.CountBytes:
		b = append(b, `;qu="content-bytes"`...)
	// No parameter, because the draft has units only for requests, bytes and concurrent requests.
	case limiter.CountRequests, limiter.CountCost, limiter.CountFailures:
	}
	b = append(b, `;w=`...)
	b = strconv.AppendInt(b, seconds(l.WindowAt(at)), 10)
	return string(b)
}

// rateLimitField returns the value of RateLimit: the remaining quota and the seconds until all of it is
// available. If wait is negative, the value has no time.
func rateLimitField(name string, available, wait int64) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(b, name...)
	b = append(b, `";r=`...)
	b = strconv.AppendInt(b, available, 10)
	if wait >= 0 {
		b = append(b, `;t=`...)
		b = strconv.AppendInt(b, wait, 10)
	}
	return string(b)
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
