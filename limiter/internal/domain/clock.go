package domain

import (
	"context"
	"time"
)

// Clock times the pauses between calls for a throttled item. It MUST be safe for concurrent use.
// Simulations replace it. Deadlines of contexts always use package time.
type Clock interface {
	Now() time.Time
	// Sleep returns nil after d. If ctx ends first, it returns the error of ctx.
	Sleep(ctx context.Context, d time.Duration) error
}

// ConcurrentClock is implemented by a Clock that runs the concurrent calls of a request itself. A simulation with a
// virtual clock needs it, because it must know when all calls of a request wait for the store.
type ConcurrentClock interface {
	Clock
	// Together returns after all calls have returned. It MUST let a call begin while another one waits for the store.
	Together(calls []func())
}

// SystemClock is the Clock of package time.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
