package algo

import "time"

// Compact is the state of a Bucket or a Window in two words: the TAT and the number of refunds of a
// bucket, or the newest window and its two counts.
type Compact struct {
	Instant int64
	Counts  uint64
}

// Compacter is a Machine with compact states: a *Bucket or a *Window.
type Compacter interface {
	Machine

	// Compact returns s in two words. State is the inverse of Compact.
	Compact(s State) Compact
	State(c Compact) State

	// TakeCompact decides like Take. It makes no decision (known is false) in rare cases: the state is ahead of now,
	// its window is not the present one, or cost is 0 or more than Capacity.
	TakeCompact(c Compact, now Instant, cost int64) (next Compact, allowed, known bool)

	// Answer returns the answer to a charge that TakeCompact decided. c is the state that TakeCompact returned.
	Answer(c Compact, now Instant, cost int64, allowed bool) Answer
}

var (
	_ Compacter = (*Bucket)(nil)
	_ Compacter = (*Window)(nil)
)

// Answer has the numbers of a decision. It is small enough for registers.
type Answer struct {
	Capacity  int64
	Remaining int64
	// Wait is the Delay of a cost that is allowed, if the bucket is a queue. It is the RetryAfter of a cost
	// that is refused.
	Wait       time.Duration
	ResetAfter time.Duration
}

// Compact implements Compacter.
func (b *Bucket) Compact(s State) Compact { return Compact{int64(s.TAT), uint64(s.Refunds)} }

// State implements Compacter.
func (b *Bucket) State(c Compact) State {
	return State{TAT: Instant(c.Instant), Refunds: int64(c.Counts)}
}

// TakeCompact implements Compacter.
func (b *Bucket) TakeCompact(c Compact, now Instant, cost int64) (next Compact, allowed, known bool) {
	tat := Instant(c.Instant)
	if cost <= 0 || cost > b.Burst || tat > b.MaxHonest(now) {
		return c, false, false
	}
	if tat > b.Latest(now, cost) {
		return c, false, true
	}
	c.Instant = int64(max(tat, now).Add(b.Increment(cost)))
	return c, true, true
}

// Answer implements Compacter.
func (b *Bucket) Answer(c Compact, now Instant, cost int64, allowed bool) (a Answer) {
	tat := Instant(c.Instant)
	a.Capacity = b.Burst
	a.ResetAfter = max(0, tat.Sub(now))
	if a.ResetAfter < b.Depth {
		a.Remaining = int64((b.Depth - a.ResetAfter) / b.Interval)
	}
	if allowed {
		a.Wait = max(0, a.ResetAfter-b.Increment(cost))
	} else {
		a.Wait = tat.Sub(b.Latest(now, cost))
	}
	return a
}

// Compact implements Compacter. A count is at most MaxCount, which fits 32 bits.
func (w *Window) Compact(s State) Compact {
	return Compact{s.Window, uint64(s.Count)<<32 | uint64(s.Previous)}
}

// State implements Compacter.
func (w *Window) State(c Compact) State {
	return State{Window: c.Instant, Count: int64(c.Counts >> 32), Previous: int64(uint32(c.Counts))}
}

// in reports whether the instant now falls into the window with this index. Its multiplication is faster than
// the division in Index.
func (w *Window) in(index int64, now Instant) bool {
	if w.calendar != nil {
		return w.Index(now) == index
	}
	elapsed := now.Sub(Instant(index * int64(w.Length)))
	return elapsed >= 0 && elapsed < w.Length
}

// TakeCompact implements Compacter.
func (w *Window) TakeCompact(c Compact, now Instant, cost int64) (next Compact, allowed, known bool) {
	if cost <= 0 || cost > w.Requests || !w.in(c.Instant, now) {
		return c, false, false
	}
	count, previous := int64(c.Counts>>32), int64(uint32(c.Counts))
	// Room divides, so TakeCompact calls it only if the previous window at full weight leaves no room.
	if count > w.Requests-cost-previous && count > w.Room(c.Instant, now, previous, cost) {
		return c, false, true
	}
	c.Counts += uint64(cost) << 32
	return c, true, true
}

// Answer implements Compacter.
func (w *Window) Answer(c Compact, now Instant, cost int64, allowed bool) (a Answer) {
	count, previous := int64(c.Counts>>32), int64(uint32(c.Counts))
	a.Capacity = w.Requests
	a.Remaining = max(0, w.Room(c.Instant, now, previous, 0)-count)
	if !allowed {
		a.Wait = w.wait(c.Instant, count, previous, now, cost)
	}
	switch {
	case count > 0 && w.Sliding:
		a.ResetAfter = w.Start(c.Instant + 2).Sub(now)
	case count > 0 || previous > 0 && w.Sliding:
		a.ResetAfter = w.Start(c.Instant + 1).Sub(now)
	}
	return a
}
