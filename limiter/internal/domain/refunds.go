package domain

import "time"

// Refunds counts refunds. Given is the number of charges that were refunded, at least in part. Dropped
// is the number of charges that were not refunded, because a refund was not safe or the store failed.
type Refunds struct{ Given, Dropped int }

// Transfer counts what the transfers of share for one request did.
type Transfer struct {
	Calls int   // calls of the stores of other regions
	Moved int64 // share that this region got
	Lost  int   // messages without an answer; what they moved is lost until the window ends
	// Failed is the number of other regions that could not be asked, or did not answer.
	Failed int
}

// TransferTimeout bounds the time that a decision waits for share of other regions. DebitTimeout is the part of it that the
// other regions have for their answers. The rest is for the credit in the store of this region.
const (
	TransferTimeout = 400 * time.Millisecond
	DebitTimeout    = 300 * time.Millisecond
)

// Add adds other refunds.
func (r *Refunds) Add(other Refunds) {
	r.Given += other.Given
	r.Dropped += other.Dropped
}
