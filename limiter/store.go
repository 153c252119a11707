package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Store keeps what subjects have been charged. Package storetest defines its behaviour as tests.
// Implementations MUST be safe for concurrent use. They MUST NOT read a clock: the instant is an
// argument, and expiry only frees space.
type Store interface {
	// Take charges all charges to subject, or none, in one atomic step, and reports which. The
	// Limiter has checked the charges: there are at most MaxCharges, all on this subject, each on
	// another limit.
	//
	// results has one element per charge. On entry it holds the state of that limit that the
	// caller saw last, or the zero value: a hint that may be stale and MUST NOT change the answer.
	// On return without error it holds the states after the charge, or the states that refused it.
	//
	// A charge of cost 0 MUST write nothing: it looks. If all charges look, MayBeStale says
	// whether a state that is some milliseconds old is enough.
	//
	// A store decides by the charge's own limit, unless the state it holds was
	// written under a higher rules version; see [Held.Settle].
	//
	// An error means that no decision was reached. It wraps ErrContended, ErrFull, ErrFormat or
	// ErrUnavailable; with the last one also ErrThrottled, ErrItemThrottled, ErrRejected or
	// ErrBreakerOpen if that is the known cause. If ctx ends, the charges have been made at most
	// once.
	Take(ctx context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error)

	// Refund gives back charges that Take made. results are those of that Take, and elapsed is the
	// time since then on the monotonic clock. Refund follows algo.Machine.Refund, and adds to
	// elapsed what the store's clocks and messages need. It silently drops what it cannot give
	// back safely; given is the number of charges of which it gave something back.
	Refund(ctx context.Context, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration) (given int, err error)

	// Inspect returns every limit that the store holds of subject, in the order of their IDs; none
	// if the subject is unknown. It writes nothing.
	Inspect(ctx context.Context, subject Subject) ([]Entry, error)

	// Reset deletes subject, which is then at full quota. A later Refund of an earlier charge may
	// give back what was charged after the reset.
	Reset(ctx context.Context, subject Subject) error
}

// Entry is a limit that a store holds of a subject.
type Entry struct {
	ID ID
	Held
}

// Local is implemented by stores whose state is in this process. A Limiter caches nothing of them.
type Local interface{ Local() }

// Connector is implemented by stores that open connections. Package resilient has one.
type Connector interface {
	// ConnectTimeout returns how long a decision at now may wait for the store because it may
	// have to open a connection; 0 if it does not. It MUST be below MinWindow. It replaces
	// Options.Timeout where it is longer. It MUST be safe for concurrent use.
	ConnectTimeout(now algo.Instant) time.Duration
}

// Held is one limit of a subject as a store holds it. The zero value is a limit
// never charged.
type Held struct {
	algo.Result
	Version int64     // of the rules that set the parameters of Machine
	Mark    algo.Mark // see algo.Clamp; usually none
}

// Settle returns how h counts for limit at now, and whether the store MUST write that even if the
// request is refused. A charge that only looks never writes. All stores use Settle, so that they
// agree on changed limits and wrong clocks:
//
//   - never charged: the limit's own machine, at full quota;
//   - the same parameters: as held;
//   - other parameters, of a lower version: converted, once;
//   - other parameters, of the same or a higher version: the held parameters decide, because
//     two versions that convert back and forth would create quota;
//   - further ahead of now than honest clocks allow: marked or clamped (algo.Clamp).
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
	if own.Ahead(next.State, now) { // otherwise the next reader would mark it
		next.clamp(now)
	}
	return next, true
}

// clamp clamps or marks a state that is too far ahead of now, and reports whether it changed.
func (h *Held) clamp(now algo.Instant) (changed bool) {
	s, k := algo.Clamp(h.Machine, h.State, h.Mark, now)
	changed = s != h.State || k != h.Mark
	h.Clamped = h.Clamped || s != h.State
	h.State, h.Mark = s, k
	return changed
}
