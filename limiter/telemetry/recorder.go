package telemetry

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/outcome"
)

const (
	interval = int64(time.Second) // between two writes
	// resolution is that of the metrics. What was counted longer ago than that is written
	// apart, under its own time.
	resolution = int64(time.Minute)
)

// Recorder writes what a process decides. Make one with New; nil and the zero value record
// nothing. It is safe for concurrent use.
type Recorder struct {
	namespace string
	hash      SubjectHash

	writing sync.Mutex    // held while lines are written, and never together with mu
	out     *json.Encoder // makes one Write of each line

	mu sync.Mutex
	// In nanoseconds by the wall clock: the monotonic one may stand still while Lambda
	// freezes the process.
	written  int64
	newest   int64 // of what is pending; 0 if nothing is
	metrics  metrics
	refusals refusals
	rules    inForce
	clock    estimate
	byRule   byRule
}

// New returns a Recorder for a deployment, named as in the keys of its store, that writes
// lines to out: one Write each, one at a time. Errors of out are dropped. hash names callers;
// nil is one with a random key.
func New(out io.Writer, namespace string, hash SubjectHash) *Recorder {
	if hash == nil {
		hash = NewSubjectHash(namespace, nil)
	}
	return &Recorder{
		namespace: namespace,
		hash:      hash,
		out:       json.NewEncoder(out),
		refusals:  refusals{counts: map[refusal]int64{}},
	}
}

// Record counts one request. Call it once for each request, after the decision.
func (r *Recorder) Record(o outcome.Outcome) {
	if r == nil || r.out == nil {
		return
	}
	r.count(o.Time.UnixNano()+int64(o.Duration), func() { r.add(&o) }) // slow requests do not turn the time back
}

// add counts a request. r.mu is held.
func (r *Recorder) add(o *outcome.Outcome) {
	m, d := &r.metrics, &o.Decision
	switch o.Class() {
	case outcome.Allowed:
		m.allowed++
	case outcome.Refused:
		m.addRefused(d)
		r.refusals.add(newRefusal(o.Caller, d.Limit))
	case outcome.Unauthorized:
		m.unauthorized++
	case outcome.Failed:
		m.failed++
		if o.Err == nil && d.LocalFull {
			m.localFull++
		}
	}
	if o.Err == nil && !d.Failed {
		m.addEnforced(o.Duration, d)
		r.byRule.add(d)
	}
	m.addStore(d)
}

// Refunds counts, at now, what became of what a request gave back that had been allowed: what
// [limiter.Receipt.Refund] returned.
func (r *Recorder) Refunds(now time.Time, done limiter.Refunds) {
	if r == nil || r.out == nil || done == (limiter.Refunds{}) {
		return
	}
	r.count(now.UnixNano(), func() { r.metrics.addRefunds(done) })
}

// RulesRefused counts, at now, a document of rules that was not put into force.
func (r *Recorder) RulesRefused(now time.Time) {
	if r == nil || r.out == nil {
		return
	}
	r.count(now.UnixNano(), func() { r.metrics.rulesRefused++ })
}

// Rules tells, at now, which version of the rules is in force, and when it was last known
// that their source has no other; the zero time if nobody asks the source again. Lines that
// are written from then on say so. labels are the rules, as Limit.Rule has them: the first
// ten are counted apart, the rest together; none are if there are none. Of calls that
// overtake each other the latest by now counts.
func (r *Recorder) Rules(now time.Time, version int64, confirmed time.Time, labels []string) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Unless the clock has been set back.
	if since := now.Sub(r.rules.told); since >= 0 || since <= -time.Duration(resolution) {
		r.rules = inForce{now, version, confirmed}
		r.byRule.name(labels)
	}
}

// WatchClock makes each line say how far estimate finds this process's clock off that of the
// store: limiter.ClockSkew. Call it before the first request.
func (r *Recorder) WatchClock(estimate func() (ahead, uncertainty time.Duration, ok bool)) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = estimate
}

// EventsDropped counts, at now, events of package events that did not reach their broker.
func (r *Recorder) EventsDropped(now time.Time, n int64) {
	if r == nil || r.out == nil {
		return
	}
	r.count(now.UnixNano(), func() { r.metrics.eventsDropped += n })
}

// batch is what is written at once, under the time at.
type batch struct {
	at       time.Time
	metrics  metrics
	rules    inForce
	clock    estimate
	byRule   []ruleCounts
	refusals refusals
}

// write writes a line of metrics, with the first rule in it; one for each further rule; and
// those of who is refused.
func (b *batch) write(out *json.Encoder, namespace string, hash SubjectHash) {
	l := newLine()
	l.addTotals(&b.metrics, b.rules, b.clock, b.at)
	for i, rule := range b.byRule {
		if i > 0 {
			l.write(out, Namespace(namespace), b.at)
			l = newLine()
		}
		l.addRule(rule)
	}
	l.write(out, Namespace(namespace), b.at)
	b.refusals.write(out, hash)
}

// count counts by add, at the time at, and writes what is then due: outside of the lock, so
// that no other request waits for the log.
func (r *Recorder) count(at int64, add func()) {
	r.mu.Lock()
	due := r.takeOld(nil, at)
	add()
	due = r.takeDue(due, at)
	r.mu.Unlock()
	if len(due) == 0 {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	for i := range due {
		due[i].write(r.out, r.namespace, r.hash)
	}
}

// takeOld takes all that is pending from long before at. r.mu is held.
func (r *Recorder) takeOld(due []*batch, at int64) []*batch {
	if r.newest != 0 && at-r.newest >= resolution {
		return append(due, r.take(r.newest, len(r.byRule.rows)))
	}
	return due
}

// takeDue takes what is pending if the last time was long enough before at, or the clock has
// been set back. Of rules it takes one: there is a line a second, and a line has room for one.
// r.mu is held.
func (r *Recorder) takeDue(due []*batch, at int64) []*batch {
	r.newest = at
	if since := at - r.written; since >= interval || since <= -interval {
		r.written = at
		return append(due, r.take(at, 1))
	}
	return due
}

// take takes what is pending, and of rules so many, to be written under the time at. r.mu is
// held.
func (r *Recorder) take(at int64, rules int) *batch {
	b := &batch{at: time.Unix(0, at), metrics: r.metrics, rules: r.rules, clock: r.clock}
	r.metrics = metrics{}
	for range rules {
		if c, ok := r.byRule.take(); ok {
			b.byRule = append(b.byRule, c)
		}
	}
	if !r.byRule.pending() {
		r.newest = 0
	}
	// An empty map stays: what is written is no longer ours to add to.
	if len(r.refusals.counts) > 0 || r.refusals.others > 0 {
		b.refusals, r.refusals = r.refusals, refusals{counts: map[refusal]int64{}}
	}
	return b
}
