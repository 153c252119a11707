package limiter

import (
	"sync"
	"time"
)

// SkewEstimator is implemented by stores that estimate how far the clock of this process is from
// that of their server.
type SkewEstimator interface {
	// ClockSkew returns how far this process's clock is ahead of the server's, negative if it
	// is behind, and how much that may be wrong either way. ok is false while nothing is known.
	ClockSkew() (ahead, uncertainty time.Duration, ok bool)
}

// ClockSkew returns what a store that is a SkewEstimator estimates; ok is false for others.
func ClockSkew(store Store) (ahead, uncertainty time.Duration, ok bool) {
	if e, is := store.(SkewEstimator); is {
		return e.ClockSkew()
	}
	return 0, 0, false
}

// exactSkew is how well a skew is known before Now corrects the clock by it.
const exactSkew = 10 * time.Millisecond

// Now returns the time for a decision: that of this process's clock, less what it is ahead of
// the store's, where that is known to within 10 ms. Read it once per request. It may step when
// an estimate is made: back, which admits nothing too much, as no older instant does; or
// forward, as a clock that is set.
func (l *Limiter) Now() time.Time {
	now := time.Now()
	if ahead, uncertainty, ok := ClockSkew(l.store); ok && uncertainty <= exactSkew {
		return now.Add(-ahead)
	}
	return now
}

// Skew estimates, from answers that name the server's time, how far this process's clock is
// ahead of the server's. A store embeds one. The zero value knows nothing. It is safe for
// concurrent use.
type Skew struct {
	mu        sync.Mutex
	known     bool
	low, high time.Duration // ahead is between them
	at        time.Time     // of the last observation
}

// How often a store that has to ask for its server's time asks for it: at once, then once a
// second until the skew is known well, and then now and then, for clocks drift apart.
const (
	skewSoon  = time.Second
	skewLater = 30 * time.Second
)

// drift is how fast two clocks drift apart at most: 100 parts in a million.
const drift = 10_000

// Begin returns the time at which a call begins, for Observe, and whether a store that has to
// ask for its server's time should.
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

// Observe takes in the answer to a call that Begin began, in which the server's time is
// from earliest on, and before latest.
func (s *Skew) Observe(sent, earliest, latest time.Time) {
	s.observe(sent, time.Now(), earliest, latest)
}

// observe is Observe of an answer that came at received. What the answers before it said still
// holds, less what clocks drift; where the two exclude each other, a clock was set.
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
