package algo

import "time"

// Result is the state of one limit of a subject and the machine that reads it. The zero value has no
// Machine: nothing is known about the limit.
type Result struct {
	Machine Machine
	State   State
	// Clamped reports that the store called Clamp for the state, because the state was too far in the future. A
	// charge of 0 does not set it. Clamped is not part of the state.
	Clamped bool
}

// RetryAfter returns the time from now until the cost is first allowed. It is 0 if the cost is allowed at the
// instant now, and Never if the cost is never allowed. The Machine MUST be known.
func (r Result) RetryAfter(now Instant, cost int64) time.Duration {
	return r.Machine.RetryAfter(r.State, now, cost)
}

// Remaining returns how many requests of cost 1 are still possible at the instant now. r.Machine MUST NOT be
// nil.
func (r Result) Remaining(now Instant) int64 { return r.Machine.Remaining(r.State, now) }

// Take charges the cost, even beyond the limit if force is true, and reports whether the machine allows it. Otherwise
// the state stays as it is. r.Machine MUST NOT be nil.
func (r *Result) Take(now Instant, cost int64, force bool) (allowed bool) {
	if force {
		r.State = r.Machine.Force(r.State, now, cost)
		return true
	}
	r.State, allowed = r.Machine.Take(r.State, now, cost)
	return allowed
}

// TakeAll charges all results or none, and reports which. charge returns the cost of the result i, and whether it is
// charged even beyond the limit. A result without a Machine allows every charge and stays as it is.
func TakeAll(now Instant, results []Result, charge func(i int) (cost int64, force bool)) bool {
	return takeFrom(0, now, results, charge)
}

// takeFrom is TakeAll for the results from i on.
func takeFrom(i int, now Instant, results []Result, charge func(i int) (cost int64, force bool)) bool {
	if i == len(results) {
		return true
	}
	r := &results[i]
	if r.Machine == nil {
		return takeFrom(i+1, now, results, charge)
	}
	before := r.State
	cost, force := charge(i)
	if !r.Take(now, cost, force) {
		return false
	}
	if !takeFrom(i+1, now, results, charge) {
		r.State = before
		return false
	}
	return true
}

// Settle corrects an earlier charge, whose result was charged. If force is true, Settle charges the cost, and returns
// the part that exceeds the max debt. Otherwise it refunds the cost. late is as in Machine.Refund. given reports whether
// the refund changed the state.
func (r *Result) Settle(now Instant, charged Result, cost int64, force bool, late time.Duration) (excess int64, given bool) {
	if force {
		excess = r.Machine.Excess(r.State, now, cost)
		r.State = r.Machine.Force(r.State, now, cost)
		return excess, false
	}
	if !Refundable(r.Machine, charged.Machine) {
		return 0, false
	}
	before := r.State
	r.State = r.Machine.Refund(before, charged.State, cost, late)
	return 0, r.State != before
}
