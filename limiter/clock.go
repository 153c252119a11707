package limiter

import (
	"sync"
	"time"
)

// SkewEstimator is implemented by stores that estimate the skew between the clock of this process and
// the clock of their server.
type SkewEstimator interface {
	// ClockSkew returns how far the clock of this process is ahead of the server's. ahead is negative
	// if the clock is behind. uncertainty is the largest error of ahead. ok is false if the store has
	// no estimate yet.
	ClockSkew() (ahead, uncertainty time.Duration, ok bool)
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
	asked     time.Time     // local time of the last call that was due
}

// Some stores have to request the server's time. They request it with the first call, and then once a
// second until the estimate is exact, even if no answer arrives. After that, they request it every half minute,
// because clocks drift.
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
	due = (s.at.IsZero() || now.Sub(s.at) >= pause) && (s.asked.IsZero() || now.Sub(s.asked) >= pause)
	if due {
		s.asked = now
	}
	return now, due
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
