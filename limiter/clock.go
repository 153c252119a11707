package limiter

import (
	"context"
	"time"
)

// Clock measures the pauses between the calls for a throttled item, and waits for their ends. It MUST
// be safe for concurrent use. A simulation has another clock than package time; deadlines of contexts
// stay those of package time.
type Clock interface {
	Now() time.Time
	// Sleep returns nil after d, or the error of ctx if that ends before.
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
