package httpclient

import (
	"fmt"
	"time"
)

// WaitError is the error of a request that was not sent. Either the API would refuse the request for
// longer than the request may wait, or the circuit breaker is open. An http.Client wraps the error in a
// *url.Error; use errors.As.
type WaitError struct {
	Host     string        // host of the request
	Wait     time.Duration // time from now until a request may be sent
	Refusals int           // number of consecutive refusals if the breaker is open; otherwise 0
}

// Error implements error.
func (e *WaitError) Error() string {
	wait := max(e.Wait, 0).Round(time.Millisecond)
	if e.Refusals > 0 {
		return fmt.Sprintf("httpclient: %s refused %d consecutive requests; retry in %s", e.Host, e.Refusals, wait)
	}
	return fmt.Sprintf("httpclient: the quota of %s is exhausted; retry in %s", e.Host, wait)
}
