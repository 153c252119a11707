package limiter

import (
	"fmt"
	"strconv"

	"github.com/weir-limits/weir/limiter/algo"
)

// OnError decides a request in an outage, when the store of one of its limits fails. If the stores
// of several limits fail, the strictest policy decides: deny, then local, then allow. A known
// refusal takes precedence over all three. Decision.Reason reports the failure in any case.
type OnError int

// From the most lenient to the strictest.
const (
	// OnErrorAllow admits the request and charges nothing: in an outage there is no limit.
	OnErrorAllow OnError = iota - 1
	// OnErrorLocal makes this process enforce the limit by itself, or its part of the limit:
	// Limit.LocalProcesses. It starts from the state that it saw last. This is the zero value.
	OnErrorLocal
	// OnErrorDeny denies the request: Decision.Failed, which HTTP answers with 503.
	OnErrorDeny
)

// String returns the word of the rules document: allow, local or deny.
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

// share validates the fields of l for an outage. It returns the part of l that one of several
// processes enforces in an outage. It returns nil if each process enforces all of l.
func (o OnError) share(l Limit) (*Limit, error) {
	most := min(MaxCells, smallest(l.Rate))
	switch {
	case o < OnErrorAllow || o > OnErrorDeny:
		return nil, &algo.FieldError{Field: "on_error", Got: o, Want: "allow, local or deny"}
	case o != OnErrorLocal && l.LocalProcesses != 0:
		return nil, &algo.FieldError{Field: "local_processes", Got: l.LocalProcesses, Want: "none without on_error local"}
	case o != OnErrorLocal:
		return nil, nil //nolint:nilnil // no share is no error
	case l.LocalProcesses < 1 || int64(l.LocalProcesses) > most:
		return nil, &algo.FieldError{Field: "local_processes", Got: l.LocalProcesses, Want: fmt.Sprintf("1 to %d here", most)}
	case l.LocalProcesses == 1:
		return nil, nil //nolint:nilnil // the whole is no share
	}
	l.isShare, l.Spread, l.Rate = true, Spread{}, share(l.Rate, 0, int64(l.LocalProcesses), false)
	l.OnError, l.LocalProcesses = OnErrorAllow, 0
	return NewLimit(l)
}

// MaxLocalCost returns the largest cost that can be allowed in an outage: MaxCost, or the capacity of one
// part if LocalProcesses divide the limit.
func (l *Limit) MaxLocalCost() int64 {
	if l.share == nil {
		return l.MaxCost()
	}
	return l.share.machine.Capacity()
}
