package algo

// parts are the fields of a Rate that say how its threshold relates to the others of the count.
type parts struct {
	percent, least int64
	most, of       int64 // the threshold on states of the capacity of (WithThreshold); 0 for none
}

func (r Rate) parts() parts { return parts{percent: r.Percent, least: r.Least} }

// Within returns m with the threshold of own, or without one if own has none (Rate.Of). A state that was stored under
// other rules thus decides by its own parameters, but admits no charge above the threshold of the charge. A threshold that
// is a part (Rate.Percent) is this part of m, at least 1: rules have no part that admits nothing.
func Within(m, own Machine) Machine {
	threshold, is, limited := int64(0), parts{}, false
	switch o := own.(type) {
	case *Window:
		threshold, is, limited = o.Requests, o.parts, o.Of > 0
	case *Bucket:
		threshold, is, limited = o.Burst, o.parts, o.Of > 0
	}
	m = Whole(m)
	switch {
	case !limited:
		return m
	case is.of == m.Capacity():
		threshold = is.most
	case is.percent > 0:
		threshold = max(1, m.Capacity()*is.percent/100)
	}
	return WithThreshold(m, m, threshold, 0)
}

// WithThreshold returns m with another threshold on states of the machine of, at most the whole state. On states of another
// capacity, it is the part percent; 0 if it is a number of its own. A machine that can have none stays as it is.
func WithThreshold(m, of Machine, most, percent int64) Machine {
	whole := Whole(of).Capacity()
	switch m := m.(type) {
	case *Window:
		one := *m
		one.Of, one.parts = m.Whole(), parts{percent, m.least, most, whole}
		one.Requests = min(most, one.Of)
		return &one
	case *Bucket:
		one := *m
		one.Of, one.parts = m.Whole(), parts{percent, m.least, most, whole}
		one.Burst = min(most, one.Of)
		one.Depth = one.Increment(one.Burst)
		return &one
	}
	return m
}

// Least returns the smallest threshold on the count of m (Rate.Least), or the capacity of m.
func Least(m Machine) int64 {
	least := int64(0)
	switch m := m.(type) {
	case *Window:
		least = m.least
	case *Bucket:
		least = m.least
	}
	if least > 0 {
		return min(least, m.Capacity())
	}
	return m.Capacity()
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
