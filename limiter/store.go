package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Store keeps what subjects have been charged. Package storetest is its definition
// as tests. Implementations MUST be safe for concurrent use and MUST NOT read a
// clock: the instant is an argument, and expiry only frees space.
type Store interface {
	// Take charges every charge to subject, or none, in one atomic step, and reports
	// which. The Limiter has checked the charges: they are all of this subject, at
	// most MaxCharges, each of another limit.
	//
	// results has one element per charge. On entry it holds what the caller last saw
	// of that limit (the zero value if nothing): a hint that may be stale and that
	// MUST NOT change the answer. On return without error it holds the states after
	// the charge or, refused, the states that refused.
	//
	// A charge of cost 0 MUST write nothing: it looks.
	//
	// A store decides by the charge's own limit, unless the state it holds was
	// written under a higher rules version; see [Held.Settle].
	//
	// An error means that no decision was reached. It wraps ErrUnavailable, and if that is
	// known ErrThrottled, ErrItemThrottled, ErrRejected or ErrBreakerOpen beside it, or ErrContended, ErrFull or
	// ErrFormat. If ctx ends, the charges have been made at most once.
	Take(ctx context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error)

	// Refund gives back charges that Take made, where results are those that it
	// returned and elapsed is the time since then on the monotonic clock. It follows
	// algo.Machine.Refund and adds to elapsed what the store's clocks and messages
	// need. What cannot be given back safely is not, without an error: given is of how many
	// charges something was.
	Refund(ctx context.Context, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration) (given int, err error)

	// Inspect returns every limit that the store holds of subject, by ID; none of a
	// subject that it does not know. It writes nothing.
	Inspect(ctx context.Context, subject Subject) ([]Entry, error)

	// Reset forgets subject, which is then at full quota. A Refund of what was taken before
	// may then give back what was taken after it.
	Reset(ctx context.Context, subject Subject) error
}

// Entry is a limit that a store holds of a subject.
type Entry struct {
	ID ID
	Held
}

// Local is implemented by stores whose state is in this process. To remember it a
// second time would cost memory and time and save nothing.
type Local interface{ Local() }

// Connector is implemented by stores that open connections. Package resilient has one.
type Connector interface {
	// ConnectTimeout returns how long a decision at now may wait for the store because it may
	// have to open a connection; 0 if it does not. It MUST be below MinWindow. It replaces
	// Options.Timeout where it is longer. It MUST be safe for concurrent use.
	ConnectTimeout(now algo.Instant) time.Duration
}

// Result is algo.Result.
type Result = algo.Result

// Held is one limit of a subject as a store holds it. The zero value is a limit
// never charged.
type Held struct {
	algo.Result
	Version int64     // of the rules whose parameters Machine has
	Mark    algo.Mark // see algo.Clamp; mostly none
}

// Settle returns how h counts for limit at now, and whether that differs from h in
// a way that the store MUST write down even if the request is refused (but not for a
// charge that only looks). All stores go through it, so that they agree on what a changed limit and a wrong clock mean:
//
//   - never charged: limit's own machine, full quota;
//   - the same parameters: as held;
//   - other parameters of a lower version: converted, once;
//   - other parameters of the same or a higher version: the held parameters decide,
//     for two versions that convert back and forth create quota;
//   - further ahead of now than honest clocks get: marked, or clamped (algo.Clamp).
func (h Held) Settle(limit *Limit, now algo.Instant) (Held, bool) {
	own := limit.machine
	if h.Machine == nil {
		return Held{Result: algo.Result{Machine: own}, Version: limit.Version}, false
	}
	changed := h.Machine.Ahead(h.State, now) && h.clamp(now)
	if h.Machine == own || h.Machine.Fingerprint() == limit.fingerprint {
		h.Machine = own
		return h, changed
	}
	if h.Version >= limit.Version {
		return h, changed
	}
	next := Held{Result: algo.Result{Machine: own, State: algo.Convert(h.Machine, own, h.State, now), Clamped: h.Clamped}, Version: limit.Version}
	if own.Ahead(next.State, now) { // or who reads what is written now would mark it at once
		next.clamp(now)
	}
	return next, true
}

// clamp clamps or marks a state that is too far ahead of now, and reports whether it did.
func (h *Held) clamp(now algo.Instant) (changed bool) {
	s, k := algo.Clamp(h.Machine, h.State, h.Mark, now)
	changed = s != h.State || k != h.Mark
	h.Clamped = h.Clamped || s != h.State
	h.State, h.Mark = s, k
	return changed
}
