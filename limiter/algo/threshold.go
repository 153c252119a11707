package algo

// Within returns m with the threshold of own, or without one if own has none (Rate.Of). A state that was stored under
// other rules thus decides by its own parameters, but admits no charge above the threshold of the charge.
func Within(m, own Machine) Machine {
	threshold, limited := int64(0), false
	switch o := own.(type) {
	case *Window:
		threshold, limited = o.Requests, o.Of > 0
	case *Bucket:
		threshold, limited = o.Burst, o.Of > 0
	}
	if limited {
		return WithThreshold(m, threshold)
	}
	return Whole(m)
}

// WithThreshold returns m with another threshold, at most that of the whole state. A machine that can have none stays as
// it is.
func WithThreshold(m Machine, most int64) Machine {
	switch m := m.(type) {
	case *Window:
		one := *m
		one.Of = m.Whole()
		one.Requests = min(most, one.Of)
		return &one
	case *Bucket:
		one := *m
		one.Of = m.Whole()
		one.Burst = min(most, one.Of)
		one.Depth = one.Increment(one.Burst)
		return &one
	}
	return m
}

// Whole returns m without its threshold, as it stands for a whole state.
func Whole(m Machine) Machine {
	if w, ok := m.(*Window); ok && w.Of > 0 {
		one := *w
		one.Requests, one.Of = w.Whole(), 0
		return &one
	}
	if b, ok := m.(*Bucket); ok && b.Of > 0 {
		one := *b
		one.Burst, one.Depth, one.Of = b.Whole(), b.depth(), 0
		return &one
	}
	return m
}
