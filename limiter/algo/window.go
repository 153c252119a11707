package algo

import (
	"fmt"
	"time"
)

// MaxCount is the largest count that a conversion may leave. The sum of two such counts fits into the 53 bits of a double.
const MaxCount = 4 * MaxAmount

// one is the weight 1 of the previous window, in units of 2^-20.
const (
	one     = 1 << oneBits
	oneBits = 20
)

// Window counts requests in windows aligned to UTC: window w covers [w*Length, (w+1)*Length).
//
// A fixed window allows a request of cost n if Count + n <= Requests. A sliding window adds the count of the previous
// window, weighted by the part of that window that is still less than Length old:
//
//	Count + ceil(Previous*weight) + n <= Requests, weight = (Length-elapsed)/Length
//
// For example, a limit of 100 a minute has a count of 80 in the previous minute and of 30 in this one. 20 seconds
// after the start of this minute, the weight is 2/3, and 84 of the 100 are used. The weight is rounded up to a
// multiple of 2^-20. A Lua script, which computes with doubles, thus gets the exact result too.
//
// If a clock is behind the newest charged window, its request counts in that window, as if the clock showed the start
// of that window. Such a clock never adds quota.
//
// The windows of a Calendar are its periods. A later period has a higher index.
type Window struct {
	Length   time.Duration // length of every window; with a calendar, of the longest period
	Requests int64         // the most that charges may use
	Of       int64         // Rate.Of; 0 without a threshold
	Sliding  bool
	parts

	calendar *calendar // periods of a fixed window; nil if all windows have the same Length
}

var _ Machine = (*Window)(nil)

// WindowOf returns the windows in which m counts, with the requests of all regions; nil if m is not a window.
func WindowOf(m Machine) *Window {
	switch m := m.(type) {
	case *Window:
		return m
	case *Shared:
		return m.Whole
	}
	return nil
}

// Index returns the index of the window that contains now.
func (w *Window) Index(now Instant) int64 {
	if w.calendar != nil {
		return w.calendar.at(now).index
	}
	return divFloor(int64(now), int64(w.Length))
}

// Start returns the first instant of window index.
func (w *Window) Start(index int64) Instant {
	if w.calendar != nil {
		return w.calendar.start(index)
	}
	return Instant(index * int64(w.Length))
}

// LengthAt returns the length of the window that contains now.
func (w *Window) LengthAt(now Instant) time.Duration {
	if w.calendar != nil {
		p := w.calendar.at(now)
		return p.end.Sub(p.start)
	}
	return w.Length
}

// Location returns the time zone of the calendar of w; nil without a calendar.
func (w *Window) Location() *time.Location {
	if w.calendar == nil {
		return nil
	}
	return w.calendar.location
}

// Calendar returns the calendar of w. It is the zero Calendar if all windows have the same Length.
func (w *Window) Calendar() Calendar {
	if w.calendar == nil {
		return Calendar{}
	}
	return w.calendar.Calendar
}

// sameWindows reports whether the windows of both machines begin at the same instants.
func (w *Window) sameWindows(other *Window) bool {
	return w.Length == other.Length && w.calendar == other.calendar
}

// Weight returns the weight of window index-1 at the instant now, in units of 2^-20. Before window index
// starts, the weight is 2^20, the whole count. In a fixed window, the weight is 0.
func (w *Window) Weight(index int64, now Instant) int64 {
	if !w.Sliding {
		return 0
	}
	elapsed := max(0, now.Sub(w.Start(index)))
	return mulDivCeil(int64(w.Length-elapsed), one, int64(w.Length))
}

// Room returns the largest Count of the window index with which a charge of this cost is allowed at the instant
// now. previous is the count of the window before. The result is negative if there is no such Count. cost MUST
// be at most Requests.
func (w *Window) Room(index int64, now Instant, previous, cost int64) int64 {
	if previous == 0 {
		return w.Requests - cost
	}
	return w.Requests - cost - mulOneCeil(previous, w.Weight(index, now))
}

// PreviousRoom is for a window index that counts nothing yet. It returns the largest count of the previous
// window with which the cost is allowed at the instant now. The result is negative if there is no such count. A
// fixed window does not count the previous window, so the result is MaxCount if cost is at most Requests.
func (w *Window) PreviousRoom(index int64, now Instant, cost int64) int64 {
	if cost > w.Requests {
		return -1
	}
	weight := w.Weight(index, now)
	if weight == 0 {
		return MaxCount
	}
	return mulDivFloor(w.Requests-cost, one, weight)
}

// At returns s moved forward to the window of now. If the window of s is not older, At returns s
// unchanged.
func (w *Window) At(s State, now Instant) State {
	if w.in(s.Window, now) {
		return s
	}
	index := w.Index(now)
	switch {
	case s.Window >= index:
		return s
	case s.Window == index-1:
		return State{Window: index, Previous: s.Count}
	}
	return State{Window: index}
}

// in reports whether now is in the window with this index. If it is, in is faster than Index, which divides.
func (w *Window) in(index int64, now Instant) bool {
	elapsed := now.Sub(Instant(index * int64(w.Length)))
	return w.calendar == nil && elapsed >= 0 && elapsed < w.Length
}

// Take implements Machine.
func (w *Window) Take(s State, now Instant, cost int64) (State, bool) {
	at := w.At(s, now)
	if cost > w.Requests || at.Count > w.Room(at.Window, now, at.Previous, cost) {
		return s, false
	}
	if cost == 0 {
		return s, true
	}
	at.Count += cost
	return at, true
}

// Force implements Machine.
func (w *Window) Force(s State, now Instant, cost int64) State {
	if cost == 0 {
		return s
	}
	at := w.At(s, now)
	at.Count = max(at.Count, min(at.Count+min(cost, w.MaxDebt()), w.MaxDebt()))
	return at
}

// Excess implements Machine.
func (w *Window) Excess(s State, now Instant, cost int64) int64 {
	return max(0, cost-max(0, w.MaxDebt()-w.At(s, now).Count))
}

// MaxDebt returns the highest Count that a forced charge may reach.
func (w *Window) MaxDebt() int64 { return 2 * w.Whole() }

// Whole returns the requests that a state stands for: those of the largest threshold.
func (w *Window) Whole() int64 { return max(w.Requests, w.Of) }

// RetryAfter implements Machine.
func (w *Window) RetryAfter(s State, now Instant, cost int64) time.Duration {
	if cost > w.Requests {
		return Never
	}
	wait := w.retryAfter(s, now, cost)
	if wait != 0 && w.Ahead(s, now) {
		wait = clampedWait(w, s, now, cost, wait)
	}
	return wait
}

func (w *Window) retryAfter(s State, now Instant, cost int64) time.Duration {
	at := w.At(s, now)
	if at.Count <= w.Room(at.Window, now, at.Previous, cost) {
		return 0
	}
	return w.wait(at.Window, at.Count, at.Previous, now, cost)
}

// wait returns the time from now until a refused cost is first allowed. index, count and previous are fields of
// the state that At returned.
func (w *Window) wait(index, count, previous int64, now Instant, cost int64) time.Duration {
	if count+cost > w.Requests { // this window has no room before it ends
		index, count, previous = index+1, 0, count
	}
	elapsed := time.Duration(0)
	if w.Sliding {
		weight := int64(one) // the largest weight that leaves room
		if previous > 0 {
			weight = min(one, mulDivFloor(w.Requests-cost-count, one, previous))
		}
		elapsed = w.Length - time.Duration(mulOne(weight, int64(w.Length)))
	}
	return w.Start(index).Add(elapsed).Sub(now)
}

// Remaining implements Machine.
func (w *Window) Remaining(s State, now Instant) int64 {
	at := w.At(s, now)
	return max(0, w.Room(at.Window, now, at.Previous, 0)-at.Count)
}

// ResetAfter implements Machine.
func (w *Window) ResetAfter(s State, now Instant) time.Duration {
	at := w.At(s, now)
	switch {
	case at.Count > 0 && w.Sliding:
		return w.Start(at.Window + 2).Sub(now)
	case at.Count > 0, at.Previous > 0 && w.Sliding:
		return w.Start(at.Window + 1).Sub(now)
	}
	return 0
}

// Refund implements Machine. The refund is exact, because the state charged contains the window that counted
// the charge. This window can be newer than the window of the clock.
func (w *Window) Refund(s, charged State, cost int64, _ time.Duration) State {
	switch {
	case s.Window == charged.Window && s.Count >= cost:
		s.Count -= cost
	case s.Window == charged.Window+1 && s.Previous >= cost:
		s.Previous -= cost
	}
	return s
}

// Ahead implements Machine.
func (w *Window) Ahead(s State, now Instant) bool {
	return !w.in(s.Window, now) && s.Window > w.MaxHonest(now)
}

func (w *Window) newest(s State) int64 { return s.Window }

func (w *Window) full(s State, at Instant) State {
	return State{Window: w.Index(at), Count: max(s.Count, w.Whole())}
}

// MaxHonest returns the newest window that is not Ahead of now.
func (w *Window) MaxHonest(now Instant) int64 { return w.Index(now.Add(MaxSkew)) }

// Capacity implements Machine.
func (w *Window) Capacity() int64 { return w.Requests }

// MaxEntries implements Machine.
func (w *Window) MaxEntries() int64 { return 0 }

// Horizon implements Machine. A count has weight until the end of the next window.
func (w *Window) Horizon() time.Duration { return 2 * w.Length }

// Idle implements Machine.
func (w *Window) Idle(s State) Instant { return w.Start(s.Window + 2) }

// Fingerprint implements Machine.
func (w *Window) Fingerprint() string {
	if w.calendar != nil {
		kind := string(w.calendar.Period)
		if w.calendar.Anchor != "" {
			kind += "-" + w.calendar.Anchor
		}
		return fmt.Sprintf("%s/%d/%s", kind, w.Whole(), w.calendar.Zone)
	}
	kind := kindFixed
	if w.Sliding {
		kind = kindSliding
	}
	return fmt.Sprintf("%s/%s/%d", kind, w.Length, w.Whole())
}

// Used implements Machine.
func (w *Window) Used(s State, now Instant) int64 {
	at := w.At(s, now)
	return w.Requests - w.Room(at.Window, now, at.Previous, 0) + at.Count
}

func (w *Window) owing(n int64, now Instant) State {
	return State{Window: w.Index(now), Count: n}
}
