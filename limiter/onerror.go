package limiter

import (
	"fmt"
	"strconv"

	"github.com/weir-limits/weir/limiter/algo"
)

// OnError decides a request in an outage, when the store of one of its limits fails. If the stores of
// several limits fail, the strictest OnError decides: deny, then local, then allow. If another limit
// refuses the request, the request is denied. Decision.Reason always reports the failure.
type OnError int

// The values of OnError, from the most lenient to the strictest.
const (
	// OnErrorAllow admits the request and charges nothing, so there is no limit in an outage.
	OnErrorAllow OnError = iota - 1
	// OnErrorLocal makes this process enforce the limit, or its part of it (Limit.LocalProcesses). The
	// process starts from the state that it last saw. This is the zero value.
	OnErrorLocal
	// OnErrorDeny denies the request with Decision.Failed. HTTP answers that with 503.
	OnErrorDeny
)

// String returns the word in the rules document: allow, local or deny.
func (o OnError) String() string {
	switch o {
	case OnErrorAllow:
		return "allow"
	case OnErrorLocal:
		return "local"
	case OnErrorDeny:
		return "deny"
	}
	return "OnError(" + strconv.Itoa(int(o)) + ")"
}

// validate checks o for a limit with rate. processes is Limit.LocalProcesses.
func (o OnError) validate(rate algo.Rate, processes int) error {
	most := min(MaxCells, maxParts(rate))
	switch {
	case o < OnErrorAllow || o > OnErrorDeny:
		return &algo.FieldError{Field: "on_error", Got: o, Want: "allow, local or deny"}
	case o != OnErrorLocal && processes != 0:
		return &algo.FieldError{Field: "local_processes", Got: processes, Want: "none without on_error local"}
	case o == OnErrorLocal && (processes < 1 || int64(processes) > most):
		return &algo.FieldError{Field: "local_processes", Got: processes, Want: fmt.Sprintf("1 to %d here", most)}
	}
	return nil
}
