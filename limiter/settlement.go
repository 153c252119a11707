package limiter

// Settlement is the result of Receipt.Settle.
type Settlement struct {
	// Refunds counts the charges whose final cost is less than the cost that Take charged.
	// Refunds.Dropped counts those that could not be refunded safely, not even in part.
	Refunds Refunds
	// Charged counts the charges whose final cost is more than the cost that Take charged.
	Charged int
	// Lost is the number of corrections that a store did not make because it failed. These charges
	// keep the cost that Take charged.
	Lost int
	// Excess are the costs that exceeded the max debt and were not counted.
	Excess []Excess
}

// Excess is a cost that exceeded the max debt of a limit.
type Excess struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
}

// Add adds the result of another settlement.
func (s *Settlement) Add(other Settlement) {
	s.Refunds.add(other.Refunds)
	s.Charged += other.Charged
	s.Lost += other.Lost
	s.Excess = append(s.Excess, other.Excess...)
}
