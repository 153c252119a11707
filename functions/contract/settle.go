package contract

// KeyReceipt is the key of a receipt in the authorizer's context. A receipt lets another function settle
// the limits whose cost is known only after the answer. The context has a receipt only if a limit of the
// request counts such a cost. A receipt is at most [MaxReceipt] bytes of base64url. If it would be longer,
// the context has none, and the limits keep their reserve.
const KeyReceipt = "receipt"

// MaxReceipt is the maximum length of a receipt in bytes.
const MaxReceipt = 2048

// Settlement is the event of a direct invocation of the function [Log]. Only Receipt is required. A
// limit whose value is missing keeps its reserve. A later event can report a field that this event leaves
// out. Cost settles once, for all limits together.
type Settlement struct {
	Receipt string `json:"receipt"`
	// Cost is the cost that the API reports: a whole number, or an object with a number for each name
	// of a limit.
	Cost any `json:"cost,omitempty"`
	// Status is the status of the answer.
	Status int `json:"status,omitempty"`
	// Bytes is the length of the body of the answer. nil means an unknown length.
	Bytes *int64 `json:"bytes,omitempty"`
}

// Settled is the answer of the function [Log] to a [Settlement]. The function returns an error only if
// the store or the records table failed, so that Lambda repeats an asynchronous invocation.
type Settled struct {
	Settled bool `json:"settled"`
	// Reason is empty if Settled is true. Otherwise it is one of the constants below.
	Reason string `json:"reason,omitempty"`
}

// These are the reasons why a receipt settled nothing.
const (
	ReasonUsed    = "used"    // the receipt has settled these limits already
	ReasonExpired = "expired" // the receipt is too old
	ReasonForged  = "forged"  // the receipt is not valid, or its key is no longer in use
	ReasonInvalid = "invalid" // the event has a mistake
	ReasonNothing = "nothing" // the receipt has no limit for which the event has a value
)

// These are the members of a JSON line of a stage's access log that the function [Log] reads.
// CloudWatch Logs sends the lines by a subscription. API Gateway writes - for a missing value. A line
// settles the limits that count failures, bytes or requests in flight. It does not settle limits that
// count cost, because only the API knows the cost.
const (
	LogReceipt = "receipt"        // $context.authorizer.receipt
	LogStatus  = "status"         // $context.status
	LogLength  = "responseLength" // $context.responseLength
)
