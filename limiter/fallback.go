package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// fallback is the Store of the parts that this process decides by itself in an outage.
type fallback struct{ *local.Fallback }

// fallbackCharges is the most charges of a part: two for each limit that processes divide.
const fallbackCharges = 2 * MaxCharges

// Take implements Store.
func (f fallback) Take(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error) {
	clear(results)
	return f.take(now, subject, charges, results, func() {})
}

// take is Take that counts at least the states with which seen fills results.
func (f fallback) take(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, seen func()) (bool, error) {
	var room [fallbackCharges]local.Charge
	taken, ok := f.Fallback.Take(now, subject.name, keys(room[:0], charges), results, seen)
	if !ok {
		return false, ErrFull
	}
	return taken, nil
}

// mirror charges what the store has charged, on limits that are held, and reports whether these admit it.
func (f fallback) mirror(now algo.Instant, p *part) bool {
	var room [fallbackCharges]local.Charge
	return f.Mirror(now, p.charges[0].Subject.name, keys(room[:0], p.charges), p.results)
}

// look fills the results of p with the states that are held, and reports whether there are any.
func (f fallback) look(now algo.Instant, p *part) bool {
	var room [fallbackCharges]local.Charge
	return f.Look(now, p.charges[0].Subject.name, keys(room[:0], p.charges), p.results)
}

// drop removes the states of p that the store counts as well.
func (f fallback) drop(p *part, stored []algo.Result) {
	var room [fallbackCharges]local.Charge
	f.Drop(p.charges[0].Subject.name, keys(room[:0], p.charges), stored)
}

// Refund implements Store.
func (f fallback) Refund(_ context.Context, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration) (given int, err error) {
	return f.Fallback.Refund(subject.name, keys(nil, charges), results, elapsed), nil
}

// Inspect implements Store. Operators inspect the shared store only.
func (f fallback) Inspect(context.Context, Subject) ([]Entry, error) { return nil, nil }

// Reset implements Store.
func (f fallback) Reset(_ context.Context, subject Subject) error {
	f.Fallback.Reset(subject.name)
	return nil
}
