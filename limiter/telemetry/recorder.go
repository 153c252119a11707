package telemetry

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
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

	mu  sync.Mutex
	out *json.Encoder // makes one Write of each line
	// In nanoseconds by the wall clock: the monotonic one may stand still while Lambda
	// freezes the process.
	written  int64
	newest   int64 // of what is pending; 0 if nothing is
	metrics  metrics
	refusals refusals
}

// New returns a Recorder for a deployment, named as in the keys of its store, that writes
// lines to out: one Write each, one at a time. Errors of out are dropped.
func New(out io.Writer, namespace string) *Recorder {
	return &Recorder{
		namespace: namespace,
		out:       json.NewEncoder(out),
		refusals:  refusals{counts: map[refusal]int64{}},
	}
}

// Record counts one request, which came at now and was decided by d after took. If err is
// not nil, d was not enforced: a bad or missing credential is counted as Unauthorized, any
// other error as Failed. Call it once for each request, after the decision.
func (r *Recorder) Record(now time.Time, took time.Duration, caller limiter.Caller, d limiter.Decision, err error) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.UnixNano() + int64(took) // slow requests do not turn the time back
	r.writeOld(at)
	m := &r.metrics
	switch {
	case err == nil:
		m.add(took, &d)
		if !d.Allowed && !d.Failed {
			r.refusals.add(newRefusal(caller, d.Limit))
		}
	case errors.Is(err, limiter.ErrInvalidCredential), errors.Is(err, limiter.ErrMissingCredential):
		m.unauthorized++
	default:
		m.failed++
	}
	m.storeCalls += int64(d.StoreCalls)
	r.writeDue(at)
}

// RulesRefused counts, at now, a document of rules that was not put into force.
func (r *Recorder) RulesRefused(now time.Time) {
	if r == nil || r.out == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.UnixNano()
	r.writeOld(at)
	r.metrics.rulesRefused++
	r.writeDue(at)
}

// writeOld writes what is pending from long before at.
func (r *Recorder) writeOld(at int64) {
	if r.newest != 0 && at-r.newest >= resolution {
		r.write(r.newest)
	}
}

// writeDue writes what is pending if the last time was long enough before at, or the clock
// has been set back.
func (r *Recorder) writeDue(at int64) {
	r.newest = at
	if since := at - r.written; since >= interval || since <= -interval {
		r.write(at)
		r.written = at
	}
}

// write writes what is pending, under the time at.
func (r *Recorder) write(at int64) {
	r.metrics.write(r.out, Namespace(r.namespace), time.Unix(0, at))
	r.refusals.write(r.out, r.namespace)
	r.metrics, r.newest = metrics{}, 0
}
