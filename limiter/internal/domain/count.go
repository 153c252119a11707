package domain

import (
	"github.com/weir-limits/weir/limiter/algo"
)

// Count is what a limit counts. The zero value counts requests. A limit with another Count charges a
// reserve at admission, and Receipt.Settle corrects it when the answer is known. A process takes no quota
// of such a limit in advance, not even under pressure. Otherwise a Limiter does not interpret the Count;
// package httplimit does.
type Count struct {
	Of Counted
	// Failures are the statuses that count as failures, for CountFailures. The zero value means 400
	// and above.
	Failures Statuses
}

// Counted is a kind of Count.
type Counted string

// These are the kinds of counts.
const (
	CountRequests Counted = ""
	CountCost     Counted = "cost"     // a number that the API reports, such as tokens
	CountFailures Counted = "failures" // requests whose answer has a status of Failures
	CountBytes    Counted = "bytes"    // the length of response bodies
	// CountConcurrent counts requests in flight. A request takes a slot for at most Rate.Window, and
	// settling it at the cost 0 releases the slot. NewLimit sets the algorithm.
	CountConcurrent Counted = "concurrent"
)

// CostField is the response field in which an API reports its cost.
const CostField = "Weir-Cost"

// Settles reports whether the cost of a request is known only after its answer.
func (c *Count) Settles() bool { return c.Of != CountRequests }

func (c *Count) validate(s Spread) error {
	switch {
	case c.Of != CountRequests && c.Of != CountCost && c.Of != CountFailures && c.Of != CountBytes && c.Of != CountConcurrent:
		return &algo.FieldError{Field: "count", Got: string(c.Of), Want: "requests, cost, failures, bytes or concurrent"}
	case c.Settles() && s != Spread{}:
		return &algo.FieldError{Field: "count", Got: string(c.Of), Want: "requests, because the limit has lease, shards or sync_ms"}
	}
	return nil
}

// Algorithm returns the algorithm of a limit with this Count. set is the algorithm in its Rate.
func (c *Count) Algorithm(set algo.Algorithm) (algo.Algorithm, error) {
	switch concurrent := set.TakesSlots(); {
	case c.Of == CountConcurrent && set != "" && !concurrent:
		return set, &algo.FieldError{Field: "algorithm", Got: set, Want: "none: a limit that counts concurrent requests has no algorithm"}
	case c.Of == CountConcurrent:
		return algo.Concurrent, nil
	case concurrent:
		return set, &algo.FieldError{Field: "algorithm", Got: set, Want: "none: set the count to concurrent instead"}
	}
	return set, nil
}

// Statuses is a set of HTTP statuses, 100 to 599.
type Statuses [8]uint64

// Add adds the status to the set.
func (s *Statuses) Add(status int) { s[(status-firstStatus)/64] |= 1 << ((status - firstStatus) % 64) }

// Has reports whether the set contains the status. The zero value contains every status of at least 400.
func (s *Statuses) Has(status int) bool {
	if *s == (Statuses{}) {
		return status >= 400
	}
	i := status - firstStatus
	return i >= 0 && i < 64*len(s) && s[i/64]>>(i%64)&1 == 1
}

// firstStatus is the lowest status that Statuses can contain.
const firstStatus = 100
