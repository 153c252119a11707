package operator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Operator answers questions about limits from rules and a store. Set its fields before the first
// question. After that it is safe for concurrent use.
type Operator struct {
	// Limiters decide requests. There must be at least one. The first Limiter answers the
	// questions. A reset deletes the state of its subject in all of them.
	Limiters []*limiter.Limiter
	// Routed returns the kinds of APIs, REST and HTTP, that have a route for a request, and the other kinds. The gateway
	// rejects a request without a route before it checks any limit. nil means that the routes are not known.
	Routed func(method, path string) (routed, unrouted []string)
	// Rules returns the rules in force for a request that comes at an instant.
	Rules func(context.Context, time.Time) *rules.Rules
	// Source describes where the rules come from. "" means the rules of the running gateway.
	Source string
	// BasePaths are the paths that custom domains of the deployment add, as in lambdahttp.Environment.
	BasePaths []string
	// Identifier verifies credentials. If it is nil, a question must not have a token or an API key.
	Identifier *caller.Identifier
	// Record returns the record of the API keys with an id. ok is false if there is none. nil means that the
	// records are not known.
	Record func(ctx context.Context, id string) (r caller.Record, ok bool, err error)
	// Hash returns what replaces a subject in logs, metrics and events. nil means that it is not known.
	Hash func(limiter.Subject) string
	// Clock returns the time. The Operator calls it once for each question.
	Clock func() time.Time
	// Address is the address of a caller if the question has none. The zero Addr means that the
	// address is unknown.
	Address netip.Addr
	// Viewers finds the address of a client behind a distribution or a proxy. nil means that the host is the only source.
	Viewers *viewer.Finder
	// IPv6Bits is the prefix length of the network that counts as one IPv6 caller; 0 means 64.
	IPv6Bits int
}

// MistakeError describes a mistake in a question.
type MistakeError struct{ text string }

func (e *MistakeError) Error() string { return e.text }

// Mistake returns a MistakeError.
func Mistake(format string, args ...any) error { return &MistakeError{fmt.Sprintf(format, args...)} }

// hash returns the hash of a subject, or "" if it is not known.
func (o *Operator) hash(s limiter.Subject) string {
	if o.Hash == nil {
		return ""
	}
	return o.Hash(s)
}

// prefix returns the network of addr that counts as one caller.
func (o *Operator) prefix(addr netip.Addr) netip.Prefix {
	bits := o.IPv6Bits
	if bits == 0 {
		bits = 64
	}
	return caller.Prefix(addr, bits)
}

// usages returns the usage of limits as the answer shows it. The first Limiter reads it.
func (o *Operator) usages(ctx context.Context, now time.Time, listed []rules.Listed) ([]LimitUsage, error) {
	charges := make([]limiter.Charge, len(listed))
	for i, l := range listed {
		charges[i] = l.Charge
	}
	usages, err := o.Limiters[0].Inspect(ctx, now, charges)
	if err != nil {
		return nil, err
	}
	limits := make([]LimitUsage, len(listed))
	for i, l := range listed {
		limits[i] = newLimit(l, now)
		limits[i].State = newState(usages[i], now)
	}
	return limits, nil
}
