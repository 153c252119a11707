package decisionlog

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

const (
	// maxPending is how many events wait at most. Of more callers the requests are counted
	// together, in events without a subject.
	maxPending = 1000
	// maxTogether is how many of those wait at most: they differ by second and outcome only.
	maxTogether = 200
)

// tally is the events that wait for the next batch. Its memory is bounded.
type tally struct {
	events  []*pending
	known   map[key]*pending
	dropped int64 // events there was no room for
}

// pending is an event that still counts.
type pending struct {
	Event
	latency time.Duration // of all together
	seen    int64         // requests that were seen, of those that it stands for
}

// key is what requests have in common that are one event.
type key struct {
	second                         int64
	outcome                        Outcome
	degraded                       limiter.Reason
	subject, rule, limit, shadowed string
}

func newKey(now time.Time, d *limiter.Decision, err error) key {
	k := key{second: now.Unix(), outcome: outcomeOf(d, err)}
	if err == nil {
		k.degraded, k.shadowed = d.Reason, nameOf(d.Shadowed)
		if d.Limit != nil {
			k.rule, k.limit = d.Limit.Rule, d.Limit.Name
		}
	}
	return k
}

// isPlain reports whether there is nothing to say of a request but that it was let through.
func isPlain(d *limiter.Decision, err error) bool {
	return err == nil && d.Allowed && d.Reason == limiter.ReasonNone && d.Shadowed == nil
}

// outcomeOf tells the outcomes apart as package telemetry does.
func outcomeOf(d *limiter.Decision, err error) Outcome {
	switch {
	case errors.Is(err, caller.ErrInvalidCredential), errors.Is(err, caller.ErrMissingCredential):
		return Unauthorized
	case err != nil || d.Failed:
		return Failed
	case !d.Allowed:
		return Refused
	}
	return Allowed
}

func nameOf(l *limiter.Limit) string {
	if l == nil {
		return ""
	}
	return l.Name
}

// sampled decides whether one of so many allowed requests is kept.
func sampled(oneIn int) bool { return oneIn > 0 && rand.IntN(oneIn) == 0 }

// addSample adds an allowed request that stands for weight of them.
func (t *tally) addSample(k key, now time.Time, took time.Duration, d *limiter.Decision, weight int64) {
	if len(t.events) >= maxPending {
		t.dropped++
		return
	}
	p := newPending(k, now)
	t.events = append(t.events, p)
	p.add(took, d, weight)
}

// add adds a request to those that it is like.
func (t *tally) add(k key, now time.Time, took time.Duration, d *limiter.Decision) {
	p := t.known[k]
	if p == nil && len(t.events) >= maxPending {
		k.subject, k.rule, k.limit, k.shadowed = "", "", "", ""
		p = t.known[k]
	}
	if p == nil {
		if len(t.events) >= maxPending+maxTogether {
			t.dropped++
			return
		}
		p = newPending(k, now)
		t.events = append(t.events, p)
		if t.known == nil {
			t.known = map[key]*pending{}
		}
		t.known[k] = p
	}
	p.add(took, d, 1)
}

func newPending(k key, now time.Time) *pending {
	return &pending{Event: Event{
		Time: now.UTC().Truncate(time.Millisecond), Outcome: k.outcome, Degraded: k.degraded,
		Subject: k.subject, Rule: k.rule, Limit: k.limit, Shadowed: k.shadowed,
	}}
}

func (p *pending) add(took time.Duration, d *limiter.Decision, weight int64) {
	p.Count += weight
	p.seen++
	p.latency += took
	if p.Limit != "" {
		p.Cost += d.Cost * weight
		p.Remaining = d.Remaining
	}
}

// event returns what p has come to, as the next event of an environment.
func (p *pending) event(namespace, environment string, sequence int64) Event {
	p.Namespace, p.Environment, p.Sequence = namespace, environment, sequence
	p.LatencyMS = float64((p.latency / time.Duration(p.seen)).Microseconds()) / 1000
	return p.Event
}
