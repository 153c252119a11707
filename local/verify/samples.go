package verify

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// These bound a probe. After a cold start, the first store call can be late. The environment then does not
// call the store for a moment.
const (
	probeCost   = patientCost + 1
	patientCost = 2
	coldWait    = 2 * time.Second
)

// probe returns the first answer of a URL to a request of the caller. It repeats the request once if the store
// did not decide it.
func (s *session) probe(ctx context.Context, url string) answer {
	if a, ok := s.probes[url]; ok {
		return a
	}
	a := s.patient(ctx, s.get(url, s.plan.Path))
	if a.degraded() != "" && s.wait(ctx, coldWait, "the store did not decide the request") == nil {
		a = s.send(ctx, s.get(url, s.plan.Path))
	}
	s.probes[url] = a
	return a
}

// patient sends a request. If a limit refuses it, because an earlier run used the limit, patient waits and
// repeats the request once.
func (s *session) patient(ctx context.Context, r request) answer {
	a := s.send(ctx, r)
	if !a.refused() {
		return a
	}
	if t, err := a.seconds(httplimit.RetryAfterField); err != nil || s.wait(ctx, t, "the limit is used up") != nil {
		return a
	}
	return s.send(ctx, r)
}

// ample is like patient. If fewer than n requests remain of the limit, it waits and repeats the request once more.
func (s *session) ample(ctx context.Context, r request, n int) answer {
	a := s.patient(ctx, r)
	if t := s.plan.Quick; t != nil && a.allowed() && a.remaining() < n && s.wait(ctx, time.Duration(t.Capacity)*t.Refill, "little of the limit remains") == nil {
		a = s.send(ctx, r)
	}
	return a
}

// ampleCost is the maximum number of requests of ample.
const ampleCost = patientCost + 1

const countingCost = 3

// notCounting returns the reason why equal answers prove nothing, or "": the first URL must count each request. An API
// that caches the results of its authorizer repeats an answer.
func (s *session) notCounting(ctx context.Context) string {
	if s.counting == nil {
		values := map[string]bool{}
		for _, a := range s.sendAll(ctx, s.get(s.urls()[0], s.plan.Path), countingCost) {
			values[a.header.Get(httplimit.RemainingField)] = true
		}
		several := len(values) > 1
		s.counting = &several
	}
	if !*s.counting {
		return "requests to " + s.plan.Path + " do not change X-RateLimit-Remaining"
	}
	return ""
}

// burst has the answers to requests that were sent at once, and the answer to the request before them.
type burst struct {
	before    answer
	remaining int
	answers   []answer
	reason    string // why there are no answers
}

// read reads what remains of the limit before the burst.
func (b *burst) read() {
	b.remaining, _ = strconv.Atoi(b.before.header.Get(httplimit.RemainingField))
}

// low reports whether too little of a limit remained to count it exactly.
func (b *burst) low(t *Target) bool { return b.remaining < t.Capacity/2 }

// burstCost is the maximum number of requests before a burst.
const burstCost = patientCost + 1

// first returns the burst to the first URL. It exhausts the limit.
func (s *session) first(ctx context.Context) *burst {
	if s.burst != nil {
		return s.burst
	}
	s.burst = &burst{}
	b, url := s.burst, s.urls()[0]
	b.before = s.patient(ctx, s.get(url, s.plan.Exact.Path))
	switch {
	case b.before.refused():
		b.reason = UsedUp
		return b
	case !b.before.allowed():
		b.reason = fmt.Sprintf("no allowed answer shows what remains of the limit (got %s)", b.before.summary())
		return b
	}
	b.read()
	if full := s.plan.Exact.Refill * time.Duration(s.plan.Exact.Capacity); b.low(s.plan.Exact) && s.wait(ctx, full, "little of the limit remains") == nil {
		if again := s.send(ctx, s.get(url, s.plan.Exact.Path)); again.allowed() {
			b.before = again
			b.read()
		}
	}
	if b.remaining >= s.plan.Exact.Capacity {
		b.reason = fmt.Sprintf("%s is %d, but the rules have a limit of %d requests; give the deployed rules with --rules", httplimit.RemainingField, b.remaining, s.plan.Exact.Capacity)
		return b
	}
	b.answers = s.sendAll(ctx, s.get(url, s.plan.Exact.Path), b.remaining+extra)
	for _, a := range b.answers {
		if reset := a.header.Get(httplimit.ResetField); s.plan.Exact.ends && reset != "" && reset != b.before.header.Get(httplimit.ResetField) {
			b.reason = "a window of the limit ended during the burst; run again"
		}
	}
	return b
}

// busy returns the number of answers of a busy subject, which show no decision of the limit.
func (b *burst) busy() (n int) {
	for _, a := range b.answers {
		if a.problem() == subjectBusy {
			n++
		}
	}
	return n
}

// bounds returns the smallest and the largest number of requests of a burst that an exact limit admits.
// During the burst the limit can regain requests. A limit that was partly used before can also have a
// fraction of a request left.
func (b *burst) bounds(t *Target) (from, to int) {
	var end time.Time
	for _, a := range b.answers {
		if a.ended.After(end) {
			end = a.ended
		}
	}
	regained := int(end.Sub(b.before.sent) / t.Refill)
	if b.remaining < t.Capacity-1 {
		regained++
	}
	return b.remaining - b.busy(), b.remaining + regained
}

// subjectBusy is the error of a refusal that no limit caused: the store could not write the item of the
// caller fast enough.
const subjectBusy = "subject_busy"

func (b *burst) refusal() (a answer, ok bool) { return refusalIn(b.answers) }

// refusalIn returns an answer of a limit that refused. It prefers one with the fields of the limit. Without a body,
// only the fields distinguish a refusal by a limit from the refusal of a busy subject.
func refusalIn(answers []answer) (found answer, ok bool) {
	for _, a := range answers {
		if problem := a.problem(); !a.refused() || problem == subjectBusy || problem == "throttled" {
			continue
		}
		if a.header.Get(httplimit.RateLimitField) != "" {
			return a, true
		}
		found, ok = a, true
	}
	return found, ok
}

// batch is the number of requests that exhaust sends at once.
const batch = 10

// exhaust sends requests until a limit refuses, and returns the refusal. Without a refusal it returns the
// last answer. It stops at an answer that shows no decision of a limit.
func (s *session) exhaust(ctx context.Context, url string, t *Target) (a answer, ok bool) {
	a = s.send(ctx, s.get(url, t.Path))
	if refused, ok := refusalIn([]answer{a}); ok {
		return refused, true
	}
	for sent := 1; sent < t.Capacity+extra && a.decided(); sent += batch {
		answers := s.sendAll(ctx, s.get(url, t.Path), min(batch, t.Capacity+extra-sent))
		if refused, ok := refusalIn(answers); ok {
			return refused, true
		}
		a = answers[0]
	}
	return a, false
}

func (a answer) summary() string {
	switch problem := a.problem(); {
	case a.err != nil:
		return "no answer: " + a.err.Error()
	case problem != "":
		return fmt.Sprintf("%d %s", a.status, problem)
	}
	return strconv.Itoa(a.status)
}
