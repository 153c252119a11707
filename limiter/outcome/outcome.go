// Package outcome holds the value that describes one decided request. The gate of package
// httplimit makes it; packages telemetry and decisionlog record it.
package outcome

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// Outcome is everything known about one decided request.
type Outcome struct {
	Time     time.Time        // when the request came
	Duration time.Duration    // of the decision, the identification of the caller included
	Caller   caller.Caller    // its verified identities only
	Decision limiter.Decision // the zero Decision if none was reached
	// Err is why Decision was not enforced: a bad or missing credential, one that could not be
	// checked, an event that could not be read, or invalid charges. nil for a request that was
	// allowed or refused, also if the store failed.
	Err error
}

// Class is the result of a request. Each request has one.
type Class string

// The classes.
const (
	Allowed      Class = "allowed"
	Refused      Class = "refused"      // over a limit: 429; or a malformed path: 400
	Unauthorized Class = "unauthorized" // bad or missing credentials: 401
	Failed       Class = "failed"       // no decision, an unchecked credential, or a store failed and a limit denies then: 500, 503
)

// Class returns the class of o.
func (o *Outcome) Class() Class {
	switch {
	case errors.Is(o.Err, caller.ErrInvalidCredential), errors.Is(o.Err, caller.ErrMissingCredential):
		return Unauthorized
	case o.Err != nil || o.Decision.Failed:
		return Failed
	case !o.Decision.Allowed:
		return Refused
	}
	return Allowed
}
