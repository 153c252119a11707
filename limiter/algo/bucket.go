package algo

import (
	"fmt"
	"time"
)

// Bucket is the machine of a token bucket and of a leaky bucket. A bucket holds Burst requests and regains one each
// Interval.
//
// The algorithm is GCRA. Instead of tokens, a bucket keeps one instant, TAT, at which it will be full again. TAT-now
// is the debt. A request of cost n at the instant now is allowed if
//
//	max(TAT, now) - now + n*Interval <= Depth
//
// and then sets TAT to max(TAT, now) + n*Interval. For example, with 100 requests a minute and a burst of 20,
// Interval is 600 ms and Depth is 12 s. The 20th request at one instant t sets TAT to t+12s. The 21st is refused,
// with a RetryAfter of 600 ms. At t+600ms, TAT is 11.4 s ahead, so a request of 600 ms fits.
type Bucket struct {
	Interval time.Duration // emission interval: ceil(Window/Requests)
	Depth    time.Duration // Burst*Interval: the time from empty to full
	Burst    int64         // the most that charges may use
	Of       int64         // Rate.Of; 0 without a threshold
	parts
}

var _ Machine = (*Bucket)(nil)

func newBucket(r Rate) (*Bucket, error) {
	interval := mulDivCeil(int64(r.Window), 1, r.Requests)
	if most := max(r.Burst, r.Of); most > int64(MaxWindow)/interval {
		return nil, &FieldError{"burst", most,
			fmt.Sprintf("at most %d: a bucket must fill within 100 days", int64(MaxWindow)/interval)}
	}
	return &Bucket{time.Duration(interval), time.Duration(r.Burst * interval), r.Burst, r.Of, r.parts()}, nil
}

// Increment returns the duration by which a charge of this cost moves TAT. cost MUST be at most twice Burst.
func (b *Bucket) Increment(cost int64) time.Duration { return time.Duration(cost) * b.Interval }

// Latest returns the latest TAT with which the bucket still allows the cost at the instant now. cost MUST be at
// most Burst. A store therefore needs one condition: if TAT is at most Latest, add Increment.
func (b *Bucket) Latest(now Instant, cost int64) Instant {
	return now.Add(b.Depth - b.Increment(cost))
}

// Take implements Machine.
func (b *Bucket) Take(s State, now Instant, cost int64) (State, bool) {
	if cost > b.Burst || s.TAT > b.Latest(now, cost) {
		return s, false
	}
	if cost > 0 {
		s.TAT = max(s.TAT, now).Add(b.Increment(cost))
	}
	return s, true
}

// Force implements Machine.
func (b *Bucket) Force(s State, now Instant, cost int64) State {
	if cost > 0 {
		s.TAT = max(s.TAT, min(max(s.TAT, now).Add(b.Increment(min(cost, 2*b.Whole()))), b.MaxDebt(now)))
	}
	return s
}

// Excess implements Machine. It rounds up.
func (b *Bucket) Excess(s State, now Instant, cost int64) int64 {
	return max(0, cost-int64(max(0, b.MaxDebt(now).Sub(max(s.TAT, now)))/b.Interval))
}

// MaxDebt returns the latest TAT that a forced charge at the instant now may set.
func (b *Bucket) MaxDebt(now Instant) Instant { return now.Add(2 * b.depth()) }

// Whole returns the burst that a state stands for: that of the largest threshold.
func (b *Bucket) Whole() int64 { return max(b.Burst, b.Of) }

func (b *Bucket) depth() time.Duration { return time.Duration(b.Whole()) * b.Interval }

// RetryAfter implements Machine.
func (b *Bucket) RetryAfter(s State, now Instant, cost int64) time.Duration {
	if cost > b.Burst {
		return Never
	}
	wait := max(0, s.TAT.Sub(b.Latest(now, cost)))
	if b.Ahead(s, now) {
		wait = clampedWait(b, s, now, cost, wait)
	}
	return wait
}

// Remaining implements Machine.
func (b *Bucket) Remaining(s State, now Instant) int64 {
	return int64(max(0, b.Depth-b.ResetAfter(s, now)) / b.Interval)
}

// ResetAfter implements Machine.
func (b *Bucket) ResetAfter(s State, now Instant) time.Duration {
	return max(0, s.TAT.Sub(now))
}

// Refund implements Machine. If the bucket is unchanged since the charge, Refund returns the whole charge. Otherwise
// time has already returned a part of the charge, and a refund of that part could create quota. Refund then returns
// only the rest.
func (b *Bucket) Refund(s, charged State, cost int64, late time.Duration) State {
	back := b.Refundable(cost, late)
	if b.Untouched(s, charged) {
		back = b.Increment(cost)
	}
	if back > 0 {
		s.TAT = s.TAT.Add(-back)
		s.Refunds++
	}
	return s
}

// Untouched reports whether the state s equals charged, the state right after a charge. Then no later charge or
// refund has changed the bucket.
func (b *Bucket) Untouched(s, charged State) bool {
	return s.TAT == charged.TAT && s.Refunds == charged.Refunds
}

// Refundable returns how much of the cost may be refunded to a bucket that was used since the charge. It is
// Increment(cost) minus late, and at least 0.
func (b *Bucket) Refundable(cost int64, late time.Duration) time.Duration {
	return max(0, b.Increment(min(cost, b.Whole()))-late)
}

// Ahead implements Machine. A debt is at most twice the time from empty to full.
func (b *Bucket) Ahead(s State, now Instant) bool { return s.TAT > b.MaxHonest(now) }

func (b *Bucket) newest(s State) int64 { return int64(s.TAT) }

func (b *Bucket) full(s State, at Instant) State {
	s.TAT = at.Add(b.depth())
	return s
}

// MaxHonest returns the newest TAT that is not Ahead of now.
func (b *Bucket) MaxHonest(now Instant) Instant { return now.Add(2*b.depth() + MaxSkew) }

// Capacity implements Machine.
func (b *Bucket) Capacity() int64 { return b.Burst }

// MaxEntries implements Machine.
func (b *Bucket) MaxEntries() int64 { return 0 }

// Horizon implements Machine. It is the time until the largest debt has been paid off.
func (b *Bucket) Horizon() time.Duration { return 2 * b.depth() }

// Idle implements Machine.
func (b *Bucket) Idle(s State) Instant { return s.TAT }

// Fingerprint implements Machine.
func (b *Bucket) Fingerprint() string {
	return fmt.Sprintf("%s/%s/%d", kindBucket, b.Interval, b.Whole())
}

// Used implements Machine.
func (b *Bucket) Used(s State, now Instant) int64 {
	return mulDivCeil(int64(b.ResetAfter(s, now)), 1, int64(b.Interval))
}

func (b *Bucket) owing(n int64, now Instant) State {
	return State{TAT: now.Add(b.Increment(min(n, b.Whole())))}
}
