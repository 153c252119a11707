package limiter

// InFlight returns of how many subjects a call of the store is in flight.
func (l *Limiter) InFlight() int {
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	return len(l.groups.waiting)
}
