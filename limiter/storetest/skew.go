package storetest

import (
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
