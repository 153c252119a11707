package telemetry

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// Settlement is the result of settling a request whose cost is known only after its answer.
type Settlement struct {
	limiter.Settlement
	Time     time.Time     // when the answer ended
	Caller   caller.Caller // caller of the request
	Rejected int           // number of cost reports that were ignored
	Voucher  bool          // true if another process admitted the request, so Caller is unknown
	Err      error         // why a part of a voucher was not settled
}

// ReceiptResult is what happened to a receipt of a request behind an authorizer.
type ReceiptResult byte

// These are the results. ReceiptResults is their number.
const (
	ReceiptSettled ReceiptResult = iota
	ReceiptOmitted
	ReceiptForged
	ReceiptReplayed
	ReceiptExpired
	ReceiptResults
)
