package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// synchronize synchronizes the counter of an item with the store. The store makes the charges that the
// counter has not yet reported, even beyond the limit. synchronize returns false if the store failed and
// the counter must not decide without the store.
func (r *request) synchronize(ctx context.Context, it *item) bool {
	l := r.limiter
	l.trackers.mu.Lock()
	t := l.trackers.get(r.now, it.Subject, it.limit)
	out := t.counter.Report(r.now)
	l.trackers.mu.Unlock()

	charges := t.limit.reportCharges(it.Subject, out)
	results := make([]algo.Result, len(charges))
	calls, err := 1, ErrUnavailable // the outcome if the store panics
	defer func() {
		l.trackers.mu.Lock()
		defer l.trackers.mu.Unlock()
		if err == nil {
			r.overshoot = max(r.overshoot, t.counter.Reported(r.now, out, results, l.intN))
		} else {
			t.counter.Unreported(r.now, out, calls > 0 && mayHaveCharged(err), busy(err), l.intN)
		}
		t.err = err
		t.endRenewal()
	}()
	began := time.Now()
	_, calls, err = l.call(r.deadline(ctx), out.At, it.Subject, charges, results)
	r.storeCalls += calls
	r.storeTime += time.Since(began)
	if err == nil {
		r.clamped += clamped(charges, results)
	} else {
		r.countInFallback(it)
	}
	switch {
	case err == nil, busy(err) && (it.limit.reports != nil || t.counter.Known()):
	case !t.counter.Known() || !it.limit.countsAlone():
		r.unsynced, r.syncErr = it, err
		return false
	case it.limit.Shadow:
		l.log.failure(ctx, r.now, err)
	}
	return true
}
