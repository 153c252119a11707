package telemetry

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// Outcome is everything known about one decided request.
type Outcome struct {
	Time     time.Time        // when the request arrived
	Duration time.Duration    // duration of the decision, including the identification of the caller
	Caller   caller.Caller    // contains only verified identities
	Charges  []limiter.Charge // charges of the request; they MUST NOT change afterwards
	Decision limiter.Decision // the zero Decision if there was no decision
	// Exemption is the name of the exemption that applies to the request. The request has no charges
	// then. It is "" if the request is not exempt.
	Exemption string
	// RecordIgnored reports that limits in the record of the API key were ignored because of a mistake.
	RecordIgnored bool
	// Uncounted reports that a claim of the caller has a form, or values, by which a limit cannot count.
	Uncounted bool
	// Unmatched reports that no rule applies to the request, although it is neither exempt nor malformed.
	Unmatched bool
	// Blocked reports that an operator has blocked the caller. The request has no charges then, and the zero Decision.
	Blocked bool
	// Err is the reason why Decision was not enforced: a bad or missing credential, an unverified
	// credential, an unsupported event, or invalid charges. It is nil if the request was allowed or
	// refused, even if the store failed.
	Err error
}

// Class is the kind of result of a request. Each request has one.
type Class string

// These are the classes.
const (
	ClassAllowed      Class = "allowed"
	ClassRefused      Class = "refused"      // the request exceeds a limit: 429; its path is malformed: 400; or the caller is blocked: 403
	ClassUnauthorized Class = "unauthorized" // bad or missing credentials: 401
	// no decision, an unverified credential, or a limit with on_error deny while the store fails: 500, 503
	ClassFailed Class = "failed"
)

// Class returns the class of o.
func (o *Outcome) Class() Class {
	switch {
	case errors.Is(o.Err, caller.ErrInvalidCredential), errors.Is(o.Err, caller.ErrMissingCredential):
		return ClassUnauthorized
	case o.Err != nil || o.Decision.Failed:
		return ClassFailed
	case !o.Decision.Allowed:
		return ClassRefused
	}
	return ClassAllowed
}

// Settlement is the result of settling a request whose cost is known only after its answer.
type Settlement struct {
	limiter.Settlement
	Time     time.Time     // when the answer ended
	Caller   caller.Caller // caller of the request
	Rejected int           // number of cost reports that were ignored
	Unread   int           // number of limits whose cost was not found in the answer
}
