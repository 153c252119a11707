package telemetry

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
)

const (
	interval = int64(time.Second) // nanoseconds between two writes
	// resolution is the resolution of CloudWatch metrics. Older counts are written separately, with
	// their own time.
	resolution = int64(time.Minute)
)

// Recorder writes the metrics of a process. Create it with New. A nil Recorder and the zero value
// record nothing. It is safe for concurrent use.
type Recorder struct {
	namespace string
	hash      SubjectHash

	writing sync.Mutex    // held while lines are written; never held together with mu
	out     *json.Encoder // calls Write once for each line

	mu sync.Mutex
	// These times are in nanoseconds of the wall clock, because the monotonic clock can stop while
	// Lambda freezes the process.
	written  int64
	newest   int64 // time of the newest count that is not yet written; 0 if there is none
	metrics  metrics
	refusals refusals
	rules    inForce
	clock    estimate
	byRule   byRule
	exempt   byRule // counts by exemption; only the allowed requests of a row are used
	function string // name of a function that returns a bad credential as an error
	oneIn    int    // one of so many requests that are not refused has a line; 0: none
}

// New returns a Recorder that writes lines to out. It calls Write once for each line, one call at a time, and
// ignores its errors. namespace is the namespace of the deployment, which is also part of the keys in its
// store. hash hashes the subjects in lines. If it is nil, New creates a hash with a random key.
func New(out io.Writer, namespace string, hash SubjectHash) *Recorder {
	if hash == nil {
		hash = NewSubjectHash(namespace, nil)
	}
	return &Recorder{
		namespace: namespace,
		hash:      hash,
		out:       json.NewEncoder(out),
		refusals:  refusals{counts: map[refusal]*refused{}},
	}
}

// Record counts one request. Call it once for each request after the decision.
func (r *Recorder) Record(o Outcome) {
	// The time of the count is the end of the decision, so that a slow request does not move the time
	// back.
	at := o.Time.UnixNano() + int64(o.Duration)
	r.count(at, func() { r.add(&o, at) })
	if r != nil && r.oneIn > 0 {
		r.sample(&o)
	}
}

func (r *Recorder) add(o *Outcome, at int64) {
	m, d := &r.metrics, &o.Decision
	switch o.Class() {
	case ClassAllowed:
		m.add(Allowed, 1)
	case ClassRefused:
		m.add(Refused, 1)
		m.addIf(d.FromCache, FromCache)
		m.addIf(d.Reason == limiter.ReasonBusy, Busy)
		of := newRefusal(o.Caller, d.Limit, false)
		of.blocked = o.Blocked
		r.refusals.add(of, refused{1, d.Capacity, d.Remaining, at, d.RetryAfter, o.Caller.IPFrom})
	case ClassUnauthorized:
		m.add(Unauthorized, 1)
	case ClassFailed:
		m.add(Failed, 1)
		m.addIf(o.Err == nil && d.LocalFull, LocalFull)
	}
	m.addIf(o.Unmatched, Unmatched)
	m.addIf(o.RecordIgnored, RecordsIgnored)
	m.addIf(o.Uncounted, ClaimsUncounted)
	m.addIf(o.Caller.ForeignKey, ForeignKeys)
	m.addIf(o.Caller.IPNotFound, AddressesNotFound)
	if o.Exemption != "" && o.Err == nil {
		r.exempt.addExempt(o.Exemption)
	}
	if o.Err == nil && !d.Failed {
		m.latency.add(o.Duration)
		r.byRule.add(o)
		if d.Shadowed != nil {
			m.add(Shadowed, 1)
			r.refusals.add(newRefusal(o.Caller, d.Shadowed, true), refused{count: 1, capacity: d.Shadowed.Machine().Capacity(), at: at,
				addressFrom: o.Caller.IPFrom})
		}
	}
	m.addStore(d)
}

// Refunds counts the result of [limiter.Receipt.Refund].
func (r *Recorder) Refunds(now time.Time, done limiter.Refunds) {
	if done != (limiter.Refunds{}) {
		r.count(now.UnixNano(), func() { r.metrics.addRefunds(done) })
	}
}

// Settled counts the result of a settlement.
func (r *Recorder) Settled(s Settlement) {
	if s.Rejected > 0 || s.Unread > 0 || s.Lost > 0 || len(s.Excess) > 0 || s.Refunds != (limiter.Refunds{}) {
		r.count(s.Time.UnixNano(), func() { r.metrics.addSettlement(&s) })
	}
}

// RulesRefused counts a rejected rules document.
func (r *Recorder) RulesRefused(now time.Time) {
	r.count(now.UnixNano(), func() { r.metrics.add(RulesRefused, 1) })
}

// Rules sets the version of the rules that are in force at the time now. confirmed is the time at which their
// source last confirmed them. The zero time means rules without a source. Later lines contain the version and
// the age of the rules. labels are the rules, as in Limit.Rule, and exemptions are the names of exemptions. The
// first ten of each are counted separately, and the others together. Without labels no rule is counted. Of
// concurrent calls, the call with the latest time applies.
func (r *Recorder) Rules(now time.Time, version int64, confirmed time.Time, labels, exemptions []string) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// If now is a little earlier, the calls came out of order and this one is older. If now is much earlier, the
	// clock was set back.
	if since := now.Sub(r.rules.at); since >= 0 || since <= -time.Duration(resolution) {
		r.rules = inForce{now, version, confirmed}
		r.byRule.name(labels)
		r.exempt.name(exemptions)
	}
}

// WatchClock adds ClockSkew to each line. estimate is the method ClockSkew of a limiter.SkewEstimator.
// Call WatchClock before the first request.
func (r *Recorder) WatchClock(estimate func() (ahead, uncertainty time.Duration, ok bool)) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = estimate
}

// CountErrors also counts Unauthorized with FunctionDimension. function is the name of a Lambda function that returns
// a bad credential as an error. Call CountErrors before the first request.
func (r *Recorder) CountErrors(function string) {
	if r != nil {
		r.function = function
	}
}

// batch contains counts that are written together. at is the time of their lines.
type batch struct {
	at       time.Time
	metrics  metrics
	rules    inForce
	clock    estimate
	function string
	byRule   []ruleCounts
	exempt   []ruleCounts
	refusals []written
}

// write writes a line of metrics with the first rule and the first exemption, a line for each further
// pair of a rule and an exemption, and the lines of refused callers.
func (b *batch) write(out *json.Encoder, namespace string, hash SubjectHash) {
	l := newLine()
	l.addTotals(&b.metrics, b.rules, b.clock, b.at)
	l.addFunction(b.function, &b.metrics)
	for i := range max(len(b.byRule), len(b.exempt)) {
		if i > 0 {
			l.write(out, Namespace(namespace), b.at)
			l = newLine()
		}
		if i < len(b.byRule) {
			l.addRule(b.byRule[i])
		}
		if i < len(b.exempt) {
			l.addExemption(b.exempt[i])
		}
	}
	l.write(out, Namespace(namespace), b.at)
	for i := range b.refusals {
		b.refusals[i].write(out, hash)
	}
}

// count calls the function add, which counts one event, and then writes the counts that are due. at is the time
// of the event.
func (r *Recorder) count(at int64, add func()) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	due := r.takeOld(nil, at)
	add()
	due = r.takeDue(due, at)
	r.mu.Unlock()
	r.write(due)
}

// Flush writes the waiting counts, unless the last write was less than a second before now. If a process calls it
// regularly, the log is complete without a further request. A process on Lambda is frozen, and cannot.
func (r *Recorder) Flush(now time.Time) {
	if r == nil || r.out == nil {
		return
	}
	at := now.UnixNano()
	r.mu.Lock()
	due := r.takeOld(nil, at)
	if r.newest != 0 {
		due = r.takeDue(due, at)
	}
	r.mu.Unlock()
	r.write(due)
}

// FlushAll writes all waiting counts, for somebody who is about to read the log. It can write several lines a second for a
// caller.
func (r *Recorder) FlushAll(now time.Time) {
	if r == nil || r.out == nil {
		return
	}
	var due []*batch
	r.mu.Lock()
	for r.newest != 0 {
		r.written = now.UnixNano()
		lines := r.refusals.take()
		b := r.take(r.written, len(r.byRule.rows))
		b.refusals = lines
		due = append(due, b)
	}
	r.mu.Unlock()
	r.write(due)
}

// write writes counts without r.mu, so a request without due counts does not wait for the log.
func (r *Recorder) write(due []*batch) {
	if len(due) == 0 {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	for _, b := range due {
		b.write(r.out, r.namespace, r.hash)
	}
}

// takeOld appends the waiting counts to the list due if the newest of them is at least the duration resolution
// before the time at. The caller holds r.mu.
func (r *Recorder) takeOld(due []*batch, at int64) []*batch {
	if r.newest != 0 && at-r.newest >= resolution {
		return append(due, r.take(r.newest, len(r.byRule.rows)))
	}
	return due
}

// takeDue appends the waiting counts to the list due if the last write was at least the duration interval
// before the time at, or if the clock was set back. It takes the counts of one rule and one exemption, because
// a line has room for one of each. Except for FlushAll, only takeDue takes refusals, so a caller has at most one line a second. The caller
// holds r.mu.
func (r *Recorder) takeDue(due []*batch, at int64) []*batch {
	r.newest = at
	if since := at - r.written; since >= interval || since <= -interval {
		r.written = at
		lines := r.refusals.take()
		b := r.take(at, 1)
		b.refusals = lines
		return append(due, b)
	}
	return due
}

// take removes waiting counts and returns them for a write with the time at. rows is the largest number of
// rules, and also of exemptions, whose counts it takes. The caller holds r.mu.
func (r *Recorder) take(at int64, rows int) *batch {
	b := &batch{at: time.Unix(0, at), metrics: r.metrics, rules: r.rules, clock: r.clock, function: r.function}
	r.metrics = metrics{}
	for range rows {
		if c, ok := r.byRule.take(); ok {
			b.byRule = append(b.byRule, c)
		}
		if c, ok := r.exempt.take(); ok {
			b.exempt = append(b.exempt, c)
		}
	}
	if !r.byRule.pending() && !r.exempt.pending() && !r.refusals.pending() {
		r.newest = 0
	}
	return b
}
