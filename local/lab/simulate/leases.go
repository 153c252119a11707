package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// LeasePolicy is when an environment takes quota of a caller in advance, although no item is busy. A Limiter has no such policy,
// because it would cost more than it saves (BENCHMARKS.md). The zero value takes none.
type LeasePolicy struct {
	Need    float64       // requests of the caller that the environment expects in Horizon, from which it takes a lease; 0: never
	Horizon time.Duration // a lease has the requests that are expected in this time, and serves them for this time
	Part    int64         // a lease has at most the capacity divided by Part, and at most half of what is left
	Return  bool          // a write returns what is left of a lease at its end
}

// LeaseResult is what a LeasePolicy costs.
type LeaseResult struct {
	Writes float64 // write units for a decision
	// Early and EarlyMost are the requests that are refused although the limit has room, as parts of the limit: the mean and the
	// largest number over the windows of callers that have a refusal.
	Early, EarlyMost float64
	Over             int64 // requests that were admitted over the limit
}

// leases is a simulation of a LeasePolicy for a limit with a window.
type leases struct {
	LeasePolicy
	window         *algo.Window
	now            algo.Instant
	states         map[uint32]algo.State // of the callers, as the store has them
	known          map[leaseKey]*lease
	ends           []leaseEnd
	writes, before float64 // before the measurement began
}

type leaseKey struct{ environment, caller uint32 }

// lease is what an environment has and knows of a caller.
type lease struct {
	state    algo.State // that the store returned last
	expected float64    // requests in Horizon
	seen     algo.Instant
	left     int64
	end      algo.Instant
}

type leaseEnd struct {
	leaseKey
	at algo.Instant
}

// Leases simulates a policy for a limit with a window. Requests arrive as in Run, but calls take no time.
func Leases(s *Scenario, p LeasePolicy) LeaseResult {
	random, from := rand.New(rand.NewPCG(s.Seed, 0)), epoch.Add(s.Warmup)
	callers, judge := rand.NewZipf(random, zipfExponent, 1, uint64(s.Callers-1)), newJudge(s, from)
	l := leases{LeasePolicy: p, window: s.Limit.Machine().(*algo.Window), now: epoch, states: map[uint32]algo.State{},
		known: map[leaseKey]*lease{}}
	requests := 0.0
	for l.now < from.Add(s.Measured) {
		l.returnEnded()
		key := leaseKey{random.Uint32N(uint32(s.fleet())), uint32(callers.Uint64())}
		admitted := l.decide(key)
		judge.add(&request{at: l.now, caller: key.caller, environment: key.environment, admitted: admitted})
		if l.now < from {
			l.before = l.writes
		} else {
			requests++
		}
		l.now = l.now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / s.Rate))
	}
	v, capacity := judge.close(), float64(l.window.Capacity())
	return LeaseResult{Writes: (l.writes - l.before) / requests, Early: float64(v.wronglyRefused) / float64(max(1, v.refusing)) / capacity,
		EarlyMost: float64(v.missingMost) / capacity, Over: v.over}
}

// returnEnded returns what is left of the leases that have ended, if their window lasts.
func (l *leases) returnEnded() {
	for ; len(l.ends) > 0 && l.ends[0].at <= l.now; l.ends = l.ends[1:] {
		c, caller := l.known[l.ends[0].leaseKey], l.ends[0].caller
		if l.Return && c.end == l.ends[0].at && c.left > 0 && c.state.Window == l.window.Index(l.now) {
			l.states[caller] = l.window.Refund(l.states[caller], c.state, c.left, 0)
			l.writes++
		}
	}
}

// decide decides a request by a lease, or by the store unless the last known state refuses it.
func (l *leases) decide(key leaseKey) (admitted bool) {
	c := l.known[key]
	if c == nil {
		c = &lease{}
		l.known[key] = c
	}
	size := int64(1)
	if l.Need > 0 {
		c.expected = 1 + c.expected*math.Exp(-float64(l.now.Sub(c.seen))/float64(l.Horizon))
		if c.expected >= l.Need {
			size = max(1, min(int64(c.expected), l.window.Capacity()/l.Part, l.window.Remaining(c.state, l.now)/2))
		}
	}
	c.seen = l.now
	switch {
	case c.left > 0 && l.now < c.end && c.state.Window == l.window.Index(l.now):
		c.left--
		return true
	case l.window.RetryAfter(c.state, l.now, 1) > 0:
		return false
	}
	for ; ; size = 1 {
		l.writes++
		c.state, admitted = l.window.Take(l.states[key.caller], l.now, size)
		l.states[key.caller] = c.state
		if admitted || size == 1 {
			break
		}
	}
	c.left, c.end = size-1, l.now.Add(l.Horizon)
	l.ends = append(l.ends, leaseEnd{key, c.end})
	return admitted
}
