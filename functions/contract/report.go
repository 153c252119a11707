package contract

// KeyReport is the key of a value in the authorizer's context: the limits of the request with a count, and a MAC. With
// this value, a foreign back end reports the cost of the request. The context has it only if a limit of the request has a
// count. It has at most [MaxReport] bytes; nothing can be reported on limits for which it has no room.
const KeyReport = "report"

// MaxReport is the maximum length of the value in bytes.
const MaxReport = 2048

// Report is the event of a direct invocation of the function [Log]. Only Report is required. A limit whose value is
// missing is not charged. Each event charges, also one that repeats another.
type Report struct {
	Report string `json:"report"`
	// Cost is the cost that the API reports: a whole number, or an object with a number for each name
	// of a limit.
	Cost any `json:"cost,omitempty"`
	// Status is the status of the answer.
	Status int `json:"status,omitempty"`
	// Bytes is the length of the body of the answer. nil means an unknown length.
	Bytes *int64 `json:"bytes,omitempty"`
}

// Reported is the answer of the function [Log] to a [Report]. The function returns an error only if the store or the
// records table failed, so that Lambda repeats an asynchronous invocation.
type Reported struct {
	Charged bool `json:"charged"`
	// Reason is empty if Charged is true. Otherwise it is one of the constants below.
	Reason string `json:"reason,omitempty"`
}

// These are the reasons why a report charged nothing.
const (
	ReasonForged  = "forged"  // no authorizer of the deployment made the value
	ReasonInvalid = "invalid" // the event has a mistake
	ReasonNothing = "nothing" // the event has no value for a limit of the request
)

// These are the members of a JSON line of a stage's access log that the function [Log] reads.
// CloudWatch Logs sends the lines by a subscription. API Gateway writes - for a missing value. A line
// charges the limits that count failures or bytes, but not those that count cost, which only the API knows.
const (
	LogReport = "report"         // $context.authorizer.report
	LogStatus = "status"         // $context.status
	LogLength = "responseLength" // $context.responseLength
)
