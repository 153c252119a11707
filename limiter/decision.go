package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Reason says why a decision was reached without asking every limit.
type Reason string

// The reasons.
const (
	// ReasonNone: every limit was asked.
	ReasonNone Reason = ""
	// ReasonUnavailable: the store did not answer, or failed.
	ReasonUnavailable Reason = "store_unavailable"
	// ReasonTimeout: the store did not answer within Options.Timeout.
	ReasonTimeout Reason = "store_timeout"
	// ReasonContended: others overtook every attempt.
	ReasonContended Reason = "store_contended"
	// ReasonFull: the store has no room for the subject.
	ReasonFull Reason = "store_full"
)

// Decision is the answer to one request. One limit speaks for all: of those that
// refuse, the one with the longest wait; of an allowed request the one with the
// least remaining, global limits left out.
type Decision struct {
	Allowed bool
	// At is the instant of the decision, the one reading of the clock.
	At time.Time
	// Limit is the limit that speaks; nil if none does, because no limit applies or
	// only global ones do, or the store failed.
	Limit *Limit
	// Capacity and Remaining are of the limit that speaks, in requests:
	// 0 <= Remaining <= Capacity.
	Capacity, Remaining int64
	// RetryAfter is how long to wait until the same request would pass, exact if
	// nobody else is charged meanwhile. 0 if it was allowed, and if it never will be
	// because it costs more than the capacity.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Remembered says that the request was refused from this environment's memory,
	// without a store call.
	Remembered bool
	// Reason is not ReasonNone if the store failed. Unless another subject's limit
	// refused, the request was then allowed.
	Reason Reason
}

// speak makes limit the one that speaks if it is stricter than the present one. d
// says already whether the request is allowed; r is the state after the charge, or
// the one that refused it.
func (d *Decision) speak(limit *Limit, r Result, now algo.Instant, cost int64) {
	remaining := r.Machine.Remaining(r.State, now)
	var wait time.Duration
	if d.Allowed {
		if limit.Global || d.Limit != nil && remaining >= d.Remaining {
			return
		}
	} else {
		wait = r.Machine.RetryAfter(r.State, now, cost)
		if wait == 0 || d.Limit != nil && wait <= d.RetryAfter {
			return
		}
	}
	d.Limit = limit
	d.Capacity = r.Machine.Capacity()
	d.Remaining = remaining
	d.RetryAfter = wait
	d.ResetAfter = r.Machine.ResetAfter(r.State, now)
}
