package limiter

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

// systemClock is the Clock of package time.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
