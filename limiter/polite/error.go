package polite

import (
	"fmt"
	"time"
)

// WaitError is the error of a request that was not sent, because the API is known to refuse it
// for longer than it may wait, or because the breaker is open. An http.Client wraps it in a
// *url.Error; errors.As finds it.
type WaitError struct {
	Host     string        // of the request
	Wait     time.Duration // from now on, until it is worth to ask again
	Refusals int           // how many there were in a row, if the breaker is open; otherwise 0
}

// Error implements error.
func (e *WaitError) Error() string {
	wait := max(e.Wait, 0).Round(time.Millisecond)
	if e.Refusals > 0 {
		return fmt.Sprintf("polite: %s has refused %d requests in a row: ask again in %s", e.Host, e.Refusals, wait)
	}
	return fmt.Sprintf("polite: nothing is left of the quota at %s for the next %s", e.Host, wait)
}
