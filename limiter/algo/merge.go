package algo

import "slices"

// Merge returns a state of m that counts, at every instant, at least what a and b each count.
func Merge(m Machine, a, b State) State {
	switch m.(type) {
	case *Bucket:
		a.TAT = max(a.TAT, b.TAT)
	case *Window, *Shared:
		newest := max(a.Window, b.Window)
		a, b = a.shift(newest), b.shift(newest)
		a.Count, a.Previous = max(a.Count, b.Count), max(a.Previous, b.Previous)
		a = a.WithMoved(max(a.Moved(), b.Moved()), max(a.MovedBefore(), b.MovedBefore()))
	case *Log:
		a.Newest = max(a.Newest, b.Newest)
		if b.Entries.Len() > a.Entries.Len() {
			a.Entries, b.Entries = b.Entries, a.Entries
		}
		// Pair the newest entries of a and b, then the second newest, and so on. Keep the later instant of each pair.
		merged, skip := make([]Instant, a.Entries.Len()), a.Entries.Len()-b.Entries.Len()
		for i := range merged {
			merged[i] = a.Entries.At(i)
			if i >= skip {
				merged[i] = max(merged[i], b.Entries.At(i-skip))
			}
		}
		a.Entries = NewEntries(merged...)
	case *Slots: // a slot keeps its instant, so that its holder can release it
		a.Entries = a.Entries.union(b.Entries)
	}
	return a
}

// Covers reports whether the state a of m counts, at every instant, at least what b counts. Refunds, and share that moved
// between regions, are no usage.
func Covers(m Machine, a, b State) bool {
	merged := Merge(m, a, b)
	if _, shared := m.(*Shared); shared {
		merged = merged.WithMoved(a.Moved(), a.MovedBefore())
	}
	merged.Refunds = a.Refunds
	return merged == a
}

// Sum returns a state of the machine m that counts, at the instant now, at least what a and s count together. a
// is a state of m, and s is a state of the machine from, which is one of the parts of m.
func Sum(m, from Machine, a, s State, now Instant) State {
	w, ok := m.(*Window)
	if part, same := from.(*Window); ok && same && part.sameWindows(w) {
		newest := max(a.Window, s.Window)
		a, s = a.shift(newest), s.shift(newest)
		a.Count, a.Previous = min(a.Count+s.Count, MaxCount), min(a.Previous+s.Previous, MaxCount)
		return a
	}
	return m.Force(a, now, from.Used(s, now))
}

// Part converts s, a state of the machine from, into a state of the machine to. The machine to is one of n equal
// parts of from, or of the base share of from if regions share it. The result counts an nth of what s counts, rounded up.
func Part(from, to Machine, n int64, s State, now Instant) State {
	switch whole := from.(type) {
	case *Window:
		s.Count, s.Previous = mulDivCeil(s.Count, 1, n), mulDivCeil(s.Previous, 1, n)
		return s
	case *Shared:
		s = s.used()
		s.Count, s.Previous = mulDivCeil(max(0, s.Count), 1, n), mulDivCeil(s.Previous, 1, n)
		return s
	case *Log, *Slots:
		kept := make([]Instant, 0, 1+s.Entries.Len()/int(n))
		for i := s.Entries.Len() - 1; i >= 0; i -= int(n) { // keep the newest of each n entries
			kept = append(kept, s.Entries.At(i))
		}
		slices.Reverse(kept)
		return State{Newest: s.Newest, Entries: NewEntries(kept...)}
	default:
		return to.owing(mulDivCeil(whole.Used(s, now), 1, n), now)
	}
}

// shift returns s with its counts moved forward to the window newest, which is not older than s.Window.
func (s State) shift(newest int64) State {
	switch newest - s.Window {
	case 0:
		return s
	case 1:
		return State{Window: newest, Previous: s.Count}.WithMoved(0, s.Moved())
	}
	return State{Window: newest}
}
