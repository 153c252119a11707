package polite

import (
	"fmt"
	"time"
)

// WaitError is the error of a request that was not sent: the API would refuse it for longer than it
// may wait, or the circuit breaker is open. An http.Client wraps it in a *url.Error; errors.As
// finds it.
type WaitError struct {
	Host     string        // of the request
	Wait     time.Duration // from now until a request may be sent
	Refusals int           // in a row, if the breaker is open; otherwise 0
}

// Error implements error.
func (e *WaitError) Error() string {
	wait := max(e.Wait, 0).Round(time.Millisecond)
	if e.Refusals > 0 {
		return fmt.Sprintf("polite: %s refused %d requests in a row; retry in %s", e.Host, e.Refusals, wait)
	}
	return fmt.Sprintf("polite: the quota of %s is used up; retry in %s", e.Host, wait)
}
