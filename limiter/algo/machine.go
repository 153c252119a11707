package algo

import (
	"math"
	"time"
)

// Instant is a point in time in nanoseconds since the Unix epoch, from 1970 to
// 2262. The zero value is the epoch and stands for "never" in a State.
type Instant int64

// InstantOf returns t without its monotonic reading and its location.
func InstantOf(t time.Time) Instant { return Instant(t.UnixNano()) }

// Time returns i in UTC.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i)).UTC() }

// Add returns i+d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns i-j.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// State is the state of one limit of one subject. Each machine uses some of the fields:
//
//   - a bucket: TAT and Refunds;
//   - a window: Window, Count and Previous; a Shared window also two that have other names there (State.Moved);
//   - a log: Newest and Entries;
//   - slots: Newest, the entry of the slot taken last, and Entries. A store that numbers slots in another way
//     need not keep Newest.
//
// For a log, a store may keep a number of its own in Refunds. The zero value is the state of a subject that
// was never charged: full quota. Only Convert and the machine that made a State may read it. States are comparable.
type State struct {
	TAT     Instant // theoretical arrival time: when the bucket will be full again
	Refunds int64   // number of refunds of the bucket

	Window   int64 // newest window charged: instant div window length
	Count    int64 // cost charged in Window
	Previous int64 // cost charged in Window-1

	Newest  Instant // newest entry that was ever appended; for slots, the last one
	Entries Entries // one instant for each request of cost 1
}

// Never is the RetryAfter of a cost that no state of the limit can hold.
const Never = time.Duration(math.MaxInt64)

// MaxSkew is the largest difference between two correct clocks. Therefore, a state that another process wrote can be
// ahead of now by MaxSkew, plus the charges and the debt of a bucket. If a state is further ahead, one of the clocks
// is wrong: see Clamp.
const MaxSkew = 5 * time.Second

// Machine is the compiled form of a Rate: a *Bucket, a *Window, a *Shared, a *Log or *Slots. Machines are immutable
// and safe for concurrent use. Their methods are pure. The methods of a Bucket and a Window do not
// allocate, except Fingerprint.
type Machine interface {
	// Take charges the cost at the instant now. It returns the next state and true if the cost is allowed, and
	// otherwise s and false. A cost of 0 changes nothing; it is refused if the limit has a debt. The caller
	// MUST NOT pass a negative cost.
	Take(s State, now Instant, cost int64) (State, bool)

	// Force charges the cost at the instant now, even if the limit refuses it. The part above the limit is a
	// debt. Force drops the part of the cost that would exceed the largest debt. The largest debt is one
	// capacity. A sliding window may have it in each of its two windows.
	Force(s State, now Instant, cost int64) State

	// Excess returns the part of the cost that Force drops, because the debt would be too large.
	Excess(s State, now Instant, cost int64) int64

	// RetryAfter returns the time from now until the cost is first allowed. It is 0 if the cost is allowed at
	// the instant now, and Never if the cost is never allowed.
	RetryAfter(s State, now Instant, cost int64) time.Duration

	// Remaining returns how many requests of cost 1 are still possible at the instant now, 0 to Capacity.
	Remaining(s State, now Instant) int64

	// ResetAfter returns the time from now to full quota if nothing more is
	// charged.
	ResetAfter(s State, now Instant) time.Duration

	// Refund gives the cost of an earlier charge back to the limit. It returns the next state.
	//
	// - charged is the state that Take returned for the charge.
	// - late is the longest time that can pass, by any clock, between that Take and the store's refund.
	//
	// After a refund, the limit never allows more than if the charge had not been made. For this reason, Refund
	// can give back less than the cost, or nothing.
	Refund(s, charged State, cost int64, late time.Duration) State

	// Ahead reports whether s is further ahead of now than honest clocks and debts allow.
	Ahead(s State, now Instant) bool

	// Capacity returns the largest cost that a full quota holds: the burst of a
	// bucket, the requests of a window. It is the threshold, if there is one.
	Capacity() int64

	// MaxEntries returns the number of Entries of the largest debt; 0 if the states of the machine have no Entries.
	MaxEntries() int64

	// Horizon returns how long a state can still refuse after its newest instant. A store keeps the state
	// at least that long.
	Horizon() time.Duration

	// Idle returns the instant from which s counts nothing, if nothing more is charged. From that instant, every
	// clock finds the full quota.
	Idle(s State) Instant

	// Fingerprint returns the parameters of a state in a readable form, such as "bucket/600ms/20", which Parse
	// reads. Machines with equal fingerprints are equal, except that their thresholds may differ (Rate.Of).
	Fingerprint() string

	// Used returns how many requests s still counts at the instant now, rounded up. It is more than Capacity if
	// s has a debt.
	Used(s State, now Instant) int64

	// newest returns the TAT, the window, or the newest entry of s. A charge increases this number only
	// if its clock is not behind s.
	newest(s State) int64

	// full returns the state of a limit that was used up at the instant at. If s counts more because of a debt, the
	// result counts as much as s.
	full(s State, at Instant) State

	// owing returns the state that counts n requests at the instant now. Convert uses Used and owing for two
	// machines without a common state.
	owing(n int64, now Instant) State
}

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

// Algorithms returns the algorithms that count requests, the default first. Concurrent, which counts requests in flight,
// is not among them.
func Algorithms() []Algorithm {
	return []Algorithm{SlidingWindow, FixedWindow, TokenBucket, LeakyBucket, SlidingLog}
}

// HasBurst reports whether a Rate of this algorithm has a Burst.
func (a Algorithm) HasBurst() bool { return a == TokenBucket || a == LeakyBucket }

// Queues reports whether an allowed request has a Delay.
func (a Algorithm) Queues() bool { return a == LeakyBucket }

// HasWindows reports whether usage is counted in windows.
func (a Algorithm) HasWindows() bool { return a == SlidingWindow || a == FixedWindow }

// Resets reports whether all usage ends at one instant, the end of a window or period.
func (a Algorithm) Resets() bool { return a == FixedWindow }

// Logs reports whether a limit of any size stores the instant of each request.
func (a Algorithm) Logs() bool { return a == SlidingLog }

// TakesSlots reports whether a request takes a slot, which it releases when it ends.
func (a Algorithm) TakesSlots() bool { return a == Concurrent }

// NoLease returns why a process cannot take quota in advance; "" if it can.
func (a Algorithm) NoLease() string {
	switch a {
	case SlidingLog:
		return "a sliding_log stores the instant of each request"
	case LeakyBucket:
		return "a leaky_bucket spaces its requests; a token_bucket is the same without"
	default:
		return ""
	}
}

// Leak returns the time in which a charge of this cost leaks out of m; Never if m keeps a charge in full until it
// expires. A cost above the Capacity counts as the Capacity. m may be nil.
func Leak(m Machine, cost int64) time.Duration {
	if b, ok := m.(*Bucket); ok {
		return b.Increment(min(cost, b.Burst))
	}
	return Never
}

// Leaks reports whether charges leak out of m steadily.
func Leaks(m Machine) bool { return Leak(m, 1) != Never }

// Delay returns how long after now a request of this cost leaves a queue. s is the state of m after the charge of the
// request. Requests that wait for their Delay leave one interval apart. It is 0 if charges do not leak out of m.
func Delay(m Machine, s State, now Instant, cost int64) time.Duration {
	return max(0, m.ResetAfter(s, now)-Leak(m, cost))
}

// KeepsInstants reports whether a state of m has the instant of each request. m may be nil.
func KeepsInstants(m Machine) bool {
	_, ok := m.(*Log)
	return ok
}

// TakesSlots reports whether a charge on m takes slots, which a refund releases. m may be nil.
func TakesSlots(m Machine) bool {
	_, ok := m.(*Slots)
	return ok
}
