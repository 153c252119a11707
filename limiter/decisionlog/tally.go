package decisionlog

import (
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const (
	// maxPending bounds the waiting events with a subject. Requests of further callers are counted
	// together, in events without a subject.
	maxPending = 1000
	// maxTogether bounds the waiting events without a subject. Such events are separate if their second,
	// outcome or reason differs.
	maxTogether = 200
)

// tally contains the events that wait for the next batch. Its memory is bounded.
type tally struct {
	events  []*pending
	known   map[key]*pending
	dropped int64 // number of requests for which there was no room
}

// pending is an event that can still get further requests.
type pending struct {
	Event
	latency time.Duration // sum of the durations of the added requests
	seen    int64         // number of added requests; Count is higher, because a sampled request counts for several
}

// key contains the values that all requests of one event share.
type key struct {
	second                         int64
	outcome                        telemetry.Class
	degraded                       limiter.Reason
	subject, rule, limit, shadowed string
	settled                        bool // true for an event of settlements, false for an event of decisions
}

func newKey(o *telemetry.Outcome) key {
	k := key{second: o.Time.Unix(), outcome: o.Class()}
	if d := &o.Decision; o.Err == nil {
		k.degraded, k.shadowed = d.Reason, nameOf(d.Shadowed)
		if d.Limit != nil {
			k.rule, k.limit = d.Limit.Rule, d.Limit.Name
		}
	}
	return k
}

// isPlain reports whether a request was allowed without an outage and without a refusal by a shadow
// limit. Only such requests are sampled; all others are counted.
func isPlain(o *telemetry.Outcome) bool {
	d := &o.Decision
	return o.Err == nil && d.Allowed && d.Reason == limiter.ReasonNone && d.Shadowed == nil
}

func nameOf(l *limiter.Limit) string {
	if l == nil {
		return ""
	}
	return l.Name
}

// sampled decides at random whether an allowed request is kept.
func sampled(oneIn int) bool { return oneIn > 0 && rand.IntN(oneIn) == 0 }

// addSample adds a sampled request as an event of its own. The event counts as weight requests.
func (t *tally) addSample(k key, o *telemetry.Outcome, weight int64) {
	if len(t.events) >= maxPending {
		t.dropped++
		return
	}
	p := newPending(k, o.Time)
	t.events = append(t.events, p)
	p.add(o, weight)
}

func (t *tally) add(k key, o *telemetry.Outcome) {
	if p := t.event(k, o.Time); p != nil {
		p.add(o, 1)
	}
}

// event returns the event of a key, which it creates at the time now. It returns nil if there is no room.
func (t *tally) event(k key, now time.Time) *pending {
	p := t.known[k]
	if p == nil && len(t.events) >= maxPending {
		k.subject, k.rule, k.limit, k.shadowed = "", "", "", ""
		p = t.known[k]
	}
	if p == nil {
		if len(t.events) >= maxPending+maxTogether {
			t.dropped++
			return nil
		}
		p = newPending(k, now)
		t.events = append(t.events, p)
		if t.known == nil {
			t.known = map[key]*pending{}
		}
		t.known[k] = p
	}
	return p
}

func newPending(k key, now time.Time) *pending {
	return &pending{Event: Event{
		Time: now.UTC().Truncate(time.Millisecond), Outcome: k.outcome, Degraded: k.degraded,
		Subject: k.subject, Rule: k.rule, Limit: k.limit, Shadowed: k.shadowed,
	}}
}

func (p *pending) add(o *telemetry.Outcome, weight int64) {
	p.Count += weight
	p.seen++
	p.latency += o.Duration
	if p.Subject != "" {
		p.AddressFrom = o.Caller.IPFrom
	}
	if p.Limit != "" {
		p.Cost += o.Decision.Cost * weight
		p.Remaining = o.Decision.Remaining
	}
}

// event returns p as an Event. environment is the random text that identifies the process.
func (p *pending) event(namespace, environment string, sequence int64) Event {
	p.Namespace, p.Environment, p.Sequence = namespace, environment, sequence
	p.LatencyMS = float64((p.latency / time.Duration(p.seen)).Microseconds()) / 1000
	return p.Event
}
