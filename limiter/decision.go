package limiter

import (
	"time"
)

// Reason says why a decision was reached without an answer of every store.
type Reason string

// The reasons.
const (
	// ReasonNone: every limit was asked.
	ReasonNone Reason = ""
	// ReasonUnavailable: the store did not answer, or failed.
	ReasonUnavailable Reason = "store_unavailable"
	// ReasonTimeout: the store did not answer within Options.Timeout.
	ReasonTimeout Reason = "store_timeout"
	// ReasonBreaker: the store was not asked, because it has failed just before.
	ReasonBreaker Reason = "store_breaker"
	// ReasonThrottled: the store takes no more for now, of any subject.
	ReasonThrottled Reason = "store_throttled"
	// ReasonBusy: requests of this subject come faster than the store can charge them. The
	// request is refused, no limit speaks, and OnError has no say.
	ReasonBusy Reason = "subject_busy"
	// ReasonFull: the store has no room for the subject.
	ReasonFull Reason = "store_full"
)

// Decision is the answer to one request. One limit speaks for all: of those that
// refuse, the one with the longest wait; of an allowed request the one with the
// least remaining, global limits left out.
type Decision struct {
	Allowed bool
	// Failed says that the request was not allowed because a store failed, and a limit with
	// OnErrorDeny wants that: 503 and not 429. No limit speaks then.
	Failed bool
	// LocalFull says that it was Failed because this process, which counts by itself in an outage, has
	// no room for one more caller: see Options.Fallback.
	LocalFull bool
	// At is the instant of the decision, the one reading of the clock.
	At time.Time
	// Limit is the limit that speaks; nil if none does, because no limit applies or
	// only global ones do, or the store failed.
	Limit *Limit
	// Superseded says that other parameters than those of Limit decided, and that
	// Capacity is of them: the store holds state of rules of a higher version, or of the
	// same version with other numbers; or the store failed, and the share of this process
	// decided (OnErrorLocal).
	Superseded bool
	// Capacity and Remaining are of the limit that speaks, in requests:
	// 0 <= Remaining <= Capacity.
	Capacity, Remaining int64
	// Cost is what the request costs by the limit that speaks, whether it was charged or not.
	Cost int64
	// RetryAfter is how long to wait until the same request would pass, exact if
	// nobody else is charged meanwhile. 0 if it was allowed, and if it never will be
	// because it costs more than the capacity. 1 to 3 s at random for ReasonBusy.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Delay is how long an allowed request has to wait for its turn in the queue of a
	// leaky bucket; the longest of several. Who does not wait uses the bucket as a meter.
	Delay time.Duration
	// Shadowed is a limit with Shadow set that would have refused; nil if none of those
	// that were asked would. After a refusal by another limit some may not have been asked.
	Shadowed *Limit
	// Overshoot is by how many requests a limit with Spread.Sync was found to be past its
	// capacity, when this request brought its counts together; or one with Spread.Adaptive
	// past what it admits in its window, or in four seconds if that is shorter. Environments
	// report at different times, so there it varies by some percent of the limit.
	Overshoot int64
	// FromCache says that the request was refused by what this environment knew, without
	// a store call.
	FromCache bool
	// StoreCalls is how many calls of a shared store the decision took, those that gave
	// back what a refused request was charged included. A Local store costs none, and
	// what a store needs several attempts for is one call.
	StoreCalls int
	// StoreTime is how long it waited for these calls; those that are made at once count as
	// one.
	StoreTime time.Duration
	// Refunds is what became of what a refused request had been charged by some subjects
	// before another refused it.
	Refunds Refunds
	// Clamped is how many of the limits had a state that was further ahead than honest clocks
	// get, and was clamped (algo.Clamp): they refused, or admitted less.
	Clamped int
	// Charges are those that were decided on: what Take was given, which must not be changed
	// as long as the Decision is read.
	Charges []Charge
	// Reason is not ReasonNone if a store failed: the decision is degraded. If no limit that
	// was asked refused, Limit.OnError has decided, unless it is ReasonBusy.
	Reason Reason
}

// Refunds is of how many charges something was given back, and of how many nothing was: it
// would not have been safe, or the store failed.
type Refunds struct{ Given, Dropped int }

func (r *Refunds) add(other Refunds) {
	r.Given += other.Given
	r.Dropped += other.Dropped
}
