package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// A wrong clock can write a state far in the future. The store clamps such a state after one horizon.
// The caller is admitted after RetryAfter.
func testFarAhead(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	still := l.Machine().Horizon() + 5*time.Second
	p.take(t, start.Add(time.Hour), one(l, 10), nil)
	// A charge of cost 0 writes nothing, so it does not record that the state is too far ahead (Held.Skew).
	p.take(t, start, one(l, 0), nil)
	p.inspect(t)
	_, results := p.take(t, start, one(l, 1), nil)
	p.inspect(t)
	wait := results[0].Machine.RetryAfter(results[0].State, start, 1)
	if wait > still+2*time.Minute {
		t.Fatalf("state an hour ahead: got RetryAfter %s, want at most %s", wait, still+2*time.Minute)
	}
	p.take(t, start.Add(still-1), one(l, 1), results)
	if allowed, _ := p.take(t, start.Add(wait), one(l, 1), results); !allowed {
		t.Fatal("after RetryAfter: got a refusal, want an allowed request")
	}
	p.inspect(t)
	p.take(t, start.Add(wait+time.Hour), one(l, 1), nil)
	// A state that is 5 s ahead can come from an honest clock, so the store does not clamp it.
	p = newPair(t, s)
	p.take(t, start.Add(5*time.Second), one(l, 10), nil)
	if allowed, _ := p.take(t, start, one(l, 1), nil); allowed {
		t.Fatal("state 5 s ahead: got a clamped state, want the charge counted")
	}
}

// If a process whose clock is far ahead continues to charge a state, the store does not clamp the state.
// The test also covers another limit of the subject, changed rules, and refunds.
func testFarAheadCharged(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	// The window is so long that no store removes the idle limit during the test.
	other := Limit(t, "b", algo.Rate{Requests: 10, Window: 2 * rate.Span()})
	far := start.Add(time.Hour)
	still := l.Machine().Horizon() + 5*time.Second
	for i := range 6 {
		now := time.Duration(i) * still / 2
		_, ahead := p.take(t, far.Add(now), one(l, 1), nil)
		p.take(t, start.Add(now), []limiter.Charge{{Limit: other, Cost: 1}, {Limit: l, Cost: 1}}, nil)
		p.take(t, start.Add(now+time.Second), []limiter.Charge{{Limit: l, Cost: 13, Force: true}}, nil)
		p.refund(t, one(l, 1), ahead, time.Second)
		p.inspect(t)
	}
	changed := changed(t, l, 2, algo.Rate{Requests: 10, Window: 7 * time.Second})
	p.take(t, start.Add(4*still), one(changed, 1), nil)
	p.inspect(t)
}

// A forced charge of cost 0 is allowed together with another charge, even if the state exceeds the max
// debt because the clock is behind.
func testForceNothing(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	other := Limit(t, "b", rates[1])
	p.take(t, start, []limiter.Charge{{Limit: l, Cost: 20, Force: true}}, nil)
	p.take(t, start.Add(-4*time.Second), []limiter.Charge{{Limit: l, Force: true}, {Limit: other, Cost: 1}}, nil)
}

// Processes with two different clocks together admit at most what one clock can admit in an interval that
// is longer by the difference. A clamp does not return quota.
func testSkew(t *testing.T, s Suite, rate algo.Rate) {
	l := Limit(t, "a", rate)
	for seed, skew := range []time.Duration{4 * time.Second, 6 * time.Second, 70 * time.Second, 10 * time.Minute} {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		p, now := newPair(t, s), start
		var admitted []algo.Instant
		var hints [2][]algo.Result
		for range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(4 * time.Second))))
			for e, clock := range []algo.Instant{now, now.Add(-skew)} {
				ok, results := p.take(t, clock, one(l, 1), hints[e])
				if hints[e] = results; ok {
					admitted = append(admitted, now)
				}
			}
		}
		for i := range admitted {
			for j := i; j < len(admitted); j++ {
				most := bound(l.Machine(), admitted[j].Sub(admitted[i])+skew)
				if slots, ok := l.Machine().(*algo.Slots); ok { // by the fast clock, a slot of the slow clock expires early
					most = float64(slots.Requests) * (1 + float64(admitted[j].Sub(admitted[i])/max(1, slots.Length-skew)))
				}
				if float64(j-i+1) > most {
					t.Fatalf("clocks %s apart: got %d admitted in %s, want at most %.1f", skew, j-i+1, admitted[j].Sub(admitted[i]), most)
				}
			}
		}
	}
}

// bound returns the number of requests that m may admit in an interval of the given length by one clock.
func bound(m algo.Machine, length time.Duration) float64 {
	switch m := m.(type) {
	case *algo.Bucket:
		return float64(m.Depth+length) / float64(m.Interval)
	case *algo.Window:
		windows := 1 + float64(length)/float64(m.Length)
		if !m.Sliding {
			windows++
		}
		return float64(m.Requests) * windows
	case *algo.Log:
		return float64(m.Requests) * (1 + float64(length/m.Length))
	}
	return 0
}
