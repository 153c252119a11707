package limiter

import (
	"sync"
	"time"
)

// SkewEstimator is implemented by stores that estimate the skew between the clock of this process and
// the clock of their server.
type SkewEstimator interface {
	// ClockSkew returns how far the clock of this process is ahead of the server's, negative if it
	// is behind, and the largest error of that estimate. ok is false while nothing is known.
	ClockSkew() (ahead, uncertainty time.Duration, ok bool)
}

// ClockSkew returns the estimate of a store that is a SkewEstimator; ok is false for others.
func ClockSkew(store Store) (ahead, uncertainty time.Duration, ok bool) {
	if e, is := store.(SkewEstimator); is {
		return e.ClockSkew()
	}
	return 0, 0, false
}

// exactSkew is the largest uncertainty of a skew by which Now corrects the clock.
const exactSkew = 10 * time.Millisecond

// Skew estimates how far the clock of this process is ahead of a server's, from answers that contain
// the server's time. A store embeds one. The zero value knows nothing. It is safe for concurrent use.
type Skew struct {
	mu        sync.Mutex
	known     bool
	low, high time.Duration // ahead is between them
	at        time.Time     // of the last observation
}

// A store that has to request its server's time does so with its first call, then once a second
// until the skew is known well, and then every half minute, because clocks drift.
const (
	skewSoon  = time.Second
	skewLater = 30 * time.Second
)

// drift bounds how fast two clocks drift apart: 100 parts in a million.
const drift = 10_000

// Begin returns the time at which a call begins, for Observe. due reports whether a store that has to
// request its server's time should do so in this call.
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

// Observe takes in an answer to the call of Begin: the server's time was from earliest up to, and
// without, latest.
func (s *Skew) Observe(sent, earliest, latest time.Time) {
	s.observe(sent, time.Now(), earliest, latest)
}

// observe is Observe of an answer that arrived at received. Earlier answers still hold, widened by the
// drift. If they contradict this one, a clock was set, and only this one counts.
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
