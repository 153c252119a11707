package limiter

import (
	"context"
	"sync"
	"sync/atomic"
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

// processClock reads the time of this process from the monotonic clock alone, which takes about half as
// long as time.Now, and never runs back: in a store of this process, a wall clock that is set back would make every state
// lie in the future. After wallClockPeriod it reads the wall clock again, and follows it only if it is ahead by more than
// wallClockAhead, as after a suspend. It is safe for concurrent use.
type processClock struct{ read atomic.Pointer[clockReading] }

// clockReading is a reading of both clocks. It has the Unix time as two numbers, sec and nsec, because adding an age
// to numbers is faster than to a time.Time.
type clockReading struct {
	at        time.Time
	sec, nsec int64
}

const (
	wallClockPeriod = 10 * time.Millisecond
	wallClockAhead  = time.Second
)

// now returns the time without a monotonic reading.
func (c *processClock) now() time.Time {
	if r := c.read.Load(); r != nil {
		if age := time.Since(r.at); age >= 0 && age < wallClockPeriod {
			return time.Unix(r.sec, r.nsec+int64(age))
		}
	}
	at := time.Now()
	return c.when(at, at)
}

// when returns the time at which time.Now returned at, and the wall clock, or a corrected one, shows wall.
func (c *processClock) when(at, wall time.Time) time.Time {
	for {
		now, r := wall.Round(0), c.read.Load()
		if r != nil {
			now = r.follow(now, at.Sub(r.at))
		}
		if c.read.CompareAndSwap(r, &clockReading{at, now.Unix(), int64(now.Nanosecond())}) {
			return now
		}
	}
}

// follow returns the time that follows r after the monotonic clock has elapsed, when the wall clock shows wall.
func (r *clockReading) follow(wall time.Time, elapsed time.Duration) time.Time {
	now := time.Unix(r.sec, r.nsec).Add(elapsed)
	if wall.Sub(now) > wallClockAhead {
		return wall
	}
	return now
}

// SkewEstimator is implemented by stores that estimate the skew between the clock of this process and
// the clock of their server.
type SkewEstimator interface {
	// ClockSkew returns how far the clock of this process is ahead of the server's. ahead is negative
	// if the clock is behind. uncertainty is the largest error of ahead. ok is false if the store has
	// no estimate yet.
	ClockSkew() (ahead, uncertainty time.Duration, ok bool)
}

// ClockSkew returns the estimate of a SkewEstimator; ok is false for any other store.
func ClockSkew(store Store) (ahead, uncertainty time.Duration, ok bool) {
	if e, is := store.(SkewEstimator); is {
		return e.ClockSkew()
	}
	return 0, 0, false
}

// exactSkew is the largest uncertainty of a skew by which Now corrects the clock.
const exactSkew = 10 * time.Millisecond

// Skew estimates how far the clock of this process is ahead of a server's, from answers that contain
// the server's time. A store may embed a Skew. The zero value has no estimate. It is safe for concurrent
// use.
type Skew struct {
	mu        sync.Mutex
	known     bool
	low, high time.Duration // the true skew is between low and high
	at        time.Time     // local time of the last observation
}

// Some stores have to request the server's time. They request it with the first call, and then once a
// second until the estimate is exact. After that, they request it every half minute, because clocks
// drift.
const (
	skewSoon  = time.Second
	skewLater = 30 * time.Second
)

// drift bounds how fast two clocks drift apart: one second in 10,000.
const drift = 10_000

// Begin returns the time at which a call begins; pass it to Observe. due reports whether this call should
// request the server's time.
func (s *Skew) Begin() (sent time.Time, due bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := skewSoon
	if s.known && (s.high-s.low)/2 <= exactSkew {
		pause = skewLater
	}
	return now, s.at.IsZero() || now.Sub(s.at) >= pause
}

// Observe updates the estimate by the answer to a call. sent is from Begin. During the call, the server's
// time was at least earliest and before latest.
func (s *Skew) Observe(sent, earliest, latest time.Time) {
	s.observe(sent, time.Now(), earliest, latest)
}

// observe is Observe for an answer that arrived at received. It widens the earlier estimate by the drift, and
// intersects it with the bounds of the new answer. If they do not overlap, a clock was set, and only the new answer
// counts.
func (s *Skew) observe(sent, received, earliest, latest time.Time) {
	low, high := sent.Sub(latest), received.Sub(earliest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		drifted := received.Sub(s.at).Abs() / drift
		if l, h := max(low, s.low-drifted), min(high, s.high+drifted); l <= h {
			low, high = l, h
		}
	}
	s.known, s.low, s.high, s.at = true, low, high, received
}

// ClockSkew implements SkewEstimator.
func (s *Skew) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low + (s.high-s.low)/2, (s.high - s.low + 1) / 2, s.known
}
