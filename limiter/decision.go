package limiter

import (
	"time"
)

// Decision is the answer to one request. It reports one limit:
//
//   - If limits refuse, it is the limit with the longest wait.
//   - If the request is allowed, it is the limit that admits the fewest further requests of the same cost.
//     Of two such limits, it is the one with the least remaining. Global limits are not reported.
type Decision struct {
	Allowed bool
	// Failed reports that the request was denied because a store failed and a limit has
	// OnErrorDeny. HTTP answers 503, not 429. No limit is reported then.
	Failed bool
	// LocalFull reports why the request Failed: this process decides alone in an outage, and has no room
	// for another subject (Options.Subjects).
	LocalFull bool
	// At is the instant of the decision.
	At time.Time
	// Limit is the reported limit. It is nil if no limit applies, if only global limits apply, or if
	// the store failed.
	Limit *Limit
	// Superseded reports that the decision did not use the parameters of Limit. Capacity is then the capacity by these
	// other parameters. There are two causes:
	//
	//   - The store holds state of a higher rules version, or of the same version with other numbers.
	//   - The store failed, and this process enforced its part of the limit (Limit.LocalProcesses).
	Superseded bool
	// Capacity and Remaining are those of the reported limit, in requests:
	// 0 <= Remaining <= Capacity.
	Capacity, Remaining int64
	// Cost is the cost of the request on the reported limit, even if the limit did not charge it.
	Cost int64
	// RetryAfter is the time until the same request would be allowed. It is exact if nothing else is charged
	// meanwhile. It is 0 if the request was allowed, or if the request can never be allowed because it costs more
	// than the capacity. For ReasonBusy and for a concurrent limit it is 1 to 3 seconds, because nobody knows the
	// exact time.
	RetryAfter time.Duration
	// ResetAfter is the time until the reported limit has its full quota, if no further requests arrive.
	ResetAfter time.Duration
	// Delay is how long an allowed request has to wait in the queue of a leaky bucket. If there are several
	// leaky buckets, it is the longest wait. A server that does not wait uses the bucket as a meter.
	Delay time.Duration
	// Shadowed is a limit with Shadow that would have refused the request; nil if none would. It can also be nil
	// because another limit refused the request first.
	Shadowed *Limit
	// Over is a limit with Mark that the allowed request exceeds; nil if there is none. Over did not charge the
	// request. Of several limits, it is the one with the longest wait. The field Limit has the same limit only if no
	// other limit can be reported.
	Over *Limit
	// Overshoot is the number of requests by which a limit with Spread.Sync exceeded its capacity when this request
	// synchronized it: the number of requests admitted above the limit in the window, or
	// in four seconds if the window is shorter. It varies by some percent of the limit, because processes synchronize at
	// different times.
	Overshoot int64
	// FromCache reports that this process denied the request without a store call.
	FromCache bool
	// StoreCalls is the number of calls of a remote store for this decision, including refunds of a denied request.
	// Several attempts inside a store are one call. Calls of a Local store do not count, and neither do calls of a
	// later settlement (Receipt.Settle).
	StoreCalls int
	// StoreTime is the time that the decision waited for calls of a remote store. Concurrent calls count
	// once.
	StoreTime time.Duration
	// Refunds counts the charges of a denied request that were made before another subject refused
	// it.
	Refunds Refunds
	// Transfer is what the decision did to get share of other regions, for limits that regions share. StoreTime does not
	// contain its time. Requests that waited for the transfer of another request do not report it.
	Transfer Transfer
	// Clamped is the number of limits whose state was further in the future than honest clocks allow, and
	// was clamped (algo.Clamp). Before the clamp, these limits admitted too few requests.
	Clamped int
	// Evicted is the number of subjects below half of all their limits that lost their counts in this process since the last
	// decision, because it had no room: in a Local store, or of an outage.
	Evicted int64
	// Reason is ReasonNone if no store failed. A decision with any other Reason is degraded: Limit.OnError
	// decided, unless a limit with a known state refused. ReasonBusy and ReasonOutage deny the request for every
	// OnError.
	Reason Reason
}
