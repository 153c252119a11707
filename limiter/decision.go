package limiter

import (
	"time"
)

// Reason is the cause of a decision without the answer of every store.
type Reason string

// The reasons.
const (
	// ReasonNone: every store answered.
	ReasonNone Reason = ""
	// ReasonUnavailable: the store failed or was not reached.
	ReasonUnavailable Reason = "store_unavailable"
	// ReasonTimeout: the store did not answer within Options.Timeout.
	ReasonTimeout Reason = "store_timeout"
	// ReasonBreaker: no call was made, because the store failed shortly before.
	ReasonBreaker Reason = "store_breaker"
	// ReasonThrottled: the store throttles calls of all subjects.
	ReasonThrottled Reason = "store_throttled"
	// ReasonBusy: requests of this subject come faster than the store can charge them. The
	// request is denied whatever OnError is, and no limit is reported.
	ReasonBusy Reason = "subject_busy"
	// ReasonFull: the store has no room for the subject.
	ReasonFull Reason = "store_full"
)

// Decision is the answer to one request. It reports one limit: of the limits that refuse, the one
// with the longest wait; of an allowed request the one with the least remaining, without global
// limits.
type Decision struct {
	Allowed bool
	// Failed reports that the request was denied because a store failed and a limit has
	// OnErrorDeny: the answer is 503, not 429. No limit is reported then.
	Failed bool
	// LocalFull reports that the request Failed because this process, which counts by itself in an
	// outage, has no room for another subject: see Options.FallbackSize.
	LocalFull bool
	// At is the instant of the decision.
	At time.Time
	// Limit is the reported limit; nil if no limit applies, only global ones do, or the store
	// failed.
	Limit *Limit
	// Superseded reports that other parameters than those of Limit decided; Capacity is theirs.
	// Either the store holds state of a higher rules version, or of the same version with other
	// numbers; or the store failed, and this process enforced its part of the limit
	// (Limit.LocalProcesses).
	Superseded bool
	// Capacity and Remaining are those of the reported limit, in requests:
	// 0 <= Remaining <= Capacity.
	Capacity, Remaining int64
	// Cost is what the request costs on the reported limit, whether it was charged or not.
	Cost int64
	// RetryAfter is how long until the same request would be allowed. It is exact if nothing else
	// is charged meanwhile. It is 0 if the request was allowed, or never will be because it costs
	// more than the capacity. For ReasonBusy it is 1 to 3 seconds, at random.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Delay is how long an allowed request has to wait in the queue of a leaky bucket; the longest
	// of several. A server that does not wait uses the bucket as a meter.
	Delay time.Duration
	// Shadowed is a limit with Shadow that would have refused; nil if none would. After a refusal by
	// another limit, some shadow limits may not have been evaluated.
	Shadowed *Limit
	// Overshoot is how many requests a limit with Spread.Sync was past its capacity when this
	// request synchronized it. For Spread.Adaptive it is how many were admitted past what the limit
	// admits in its window, or in four seconds if the window is shorter; it varies by some percent of the
	// limit, because processes report at different times.
	Overshoot int64
	// FromCache reports that the request was denied without a store call, by what this process knew.
	FromCache bool
	// StoreCalls is the number of calls of a shared store for this decision, including refunds of a
	// denied request. Several attempts inside a store are one call. A Local store counts none.
	StoreCalls int
	// StoreTime is the time that the decision waited for these calls. Concurrent calls count once.
	StoreTime time.Duration
	// Refunds counts the charges of a denied request that were taken before another subject
	// refused it.
	Refunds Refunds
	// Clamped is the number of limits whose state was further ahead than honest clocks allow and was
	// clamped (algo.Clamp): they refused, or admitted less.
	Clamped int
	// Charges are the charges that Take got. They must not change while the Decision is in use.
	Charges []Charge
	// Reason is ReasonNone unless a store failed: then the decision is degraded. If no other limit
	// refused, Limit.OnError decided, except for ReasonBusy.
	Reason Reason
}

// Refunds counts charges of which something was given back, and charges of which nothing was,
// because that was not safe or the store failed.
type Refunds struct{ Given, Dropped int }

func (r *Refunds) add(other Refunds) {
	r.Given += other.Given
	r.Dropped += other.Dropped
}
