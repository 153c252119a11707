package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// sync synchronizes the counter of an item with the store. It charges the store with the pending
// count, past the limit if necessary. It returns false if the store failed and the counter may not
// decide by itself; then the item has failed.
func (r *request) sync(ctx context.Context, it *item) bool {
	l := r.limiter
	l.accounts.mu.Lock()
	a := l.accounts.of(r.now, it.Subject, it.limit)
	out := a.counter.Report(r.now)
	l.accounts.mu.Unlock()

	charges := a.limit.reportCharges(it.Subject, out)
	results := make([]algo.Result, len(charges))
	calls, err := 1, ErrUnavailable // if the store panics
	defer func() {
		l.accounts.mu.Lock()
		defer l.accounts.mu.Unlock()
		if err == nil {
			r.overshoot = max(r.overshoot, a.counter.Reported(r.now, out, results, l.intN))
		} else {
			a.counter.Unreported(r.now, out, calls > 0 && mayHaveCharged(err), busy(err), l.intN)
		}
		a.failed = err
		a.answered()
	}()
	asked := time.Now()
	_, calls, err = l.ask(r.deadline(ctx), out.At, it.Subject, charges, results)
	r.calls += calls
	r.stored += time.Since(asked)
	if err == nil {
		r.clamped += clamped(charges, results)
	} else {
		r.outlive(it)
	}
	switch {
	case err == nil, busy(err) && (it.limit.reports != nil || a.counter.Known()):
	case !a.counter.Known() || !it.limit.countsAlone():
		r.unsynced, r.unasked = it, err
		return false
	case it.limit.Shadow:
		l.log.failure(ctx, r.now, err)
	}
	return true
}
