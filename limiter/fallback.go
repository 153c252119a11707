package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// fallback is the Store of the batches that this process decides by itself in an outage.
type fallback struct{ *local.Fallback }

// Take implements Store.
func (f fallback) Take(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error) {
	clear(results)
	return f.take(now, subject, charges, results, func() {})
}

// take is like Take. seen first writes states to results, and take counts at least what these states
// count.
func (f fallback) take(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, seen func()) (bool, error) {
	taken, ok := f.Fallback.Take(now, subject.String(), keys(nil, charges), results, seen)
	if !ok {
		return false, ErrFull
	}
	return taken, nil
}

// Settle implements Store. No voucher has charges on a fallback, so there is no ID to check.
func (f fallback) Settle(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration, _ Once) (s Settled, err error) {
	s.Given = f.Fallback.Settle(now, subject.String(), keys(nil, charges), results, elapsed, s.Excess[:])
	return s, nil
}

// Inspect implements Store. Operators inspect the shared store only.
func (f fallback) Inspect(context.Context, Subject) ([]Entry, error) { return nil, nil }

// Reset implements Store.
func (f fallback) Reset(_ context.Context, subject Subject) error {
	f.Fallback.Reset(subject.String())
	return nil
}
