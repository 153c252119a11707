package algo

import "time"

// Convert converts the state s at the instant now. The machine of s is from; the machine of the result is to.
// Used quota stays used, so a changed limit creates no quota.
//
//   - Bucket to bucket keeps the debt in requests, up to the new depth. With a threshold (Rate.Of), it keeps the debt
//     up to the max debt: environments with other numbers can still admit up to theirs.
//   - Window to window with the same boundaries keeps the counts. Otherwise an old window counts in full in
//     every new window that it overlaps.
//   - A window that regions share, from or to, counts what moved to other regions, but not what moved from them.
//   - Log to log keeps the entries.
//   - Slots to slots keeps the slots that have not expired.
//   - Between different kinds, the requests that still count at the instant now are charged at this instant.
//
// A bucket without a threshold forgets usage above its burst. If the old rules return, the forgotten usage stays forgotten, but
// its refunds still reduce the count.
//
// Otherwise, a second conversion would lose precision, always toward fewer admissions. Therefore, a store converts
// once, and stores the version of the rules that caused the conversion.
func Convert(from, to Machine, s State, now Instant) State {
	if shared, ok := from.(*Shared); ok {
		from, s = shared.Whole, shared.whole(s)
	}
	if shared, ok := to.(*Shared); ok {
		to = shared.Whole
	}
	switch old := from.(type) {
	case *Bucket:
		if b, ok := to.(*Bucket); ok {
			return b.convert(old, s, now)
		}
	case *Window:
		if w, ok := to.(*Window); ok {
			return w.convert(old, s, now)
		}
	case *Log:
		if l, ok := to.(*Log); ok {
			return l.Trim(old.Trim(s)) // A store can keep expired entries. Without Trim, they would count again in a longer log.
		}
	case *Slots:
		if l, ok := to.(*Slots); ok {
			return l.convert(old, s, now)
		}
	}
	return to.owing(from.Used(s, now), now)
}

func (b *Bucket) convert(old *Bucket, s State, now Instant) State {
	if s.TAT <= now {
		return s
	}
	debt := mulDivCeil(int64(s.TAT.Sub(now)), int64(b.Interval), int64(old.Interval))
	most := b.Depth
	if b.Of > 0 {
		most = 2 * b.depth()
	}
	s.TAT = now.Add(min(time.Duration(debt), most))
	return s
}

func (w *Window) convert(old *Window, s State, now Instant) State {
	if w.sameWindows(old) || s == (State{}) {
		return s
	}
	// If the clock is behind the state, the conversion uses the start of the newest old window.
	// Otherwise the counts of that window would be lost.
	next := State{Window: w.Index(max(now, old.Start(s.Window)))}
	add := func(oldIndex, count int64) {
		from, to := old.Start(oldIndex), old.Start(oldIndex+1)
		if from < w.Start(next.Window+1) && to > w.Start(next.Window) {
			next.Count = min(next.Count+count, MaxCount)
		}
		if from < w.Start(next.Window) && to > w.Start(next.Window-1) {
			next.Previous = min(next.Previous+count, MaxCount)
		}
	}
	add(s.Window, s.Count)
	add(s.Window-1, s.Previous)
	return next
}
