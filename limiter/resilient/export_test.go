package resilient

import "time"

// Set sets the number of failures that open the breaker of b. If timeout is not 0, it bounds all decisions.
func Set(b *Store, failures uint32, timeout time.Duration) {
	b.failures = failures
	if timeout > 0 {
		b.reconnect, b.first = timeout, timeout
	}
}
