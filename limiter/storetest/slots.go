package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testSlots takes and releases slots. Some holders release in time, some late, some twice, and some
// never.
func testSlots(t *testing.T, s Suite) {
	p, l, start := newPair(t, s), Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: 3, Window: time.Minute}), algo.SlotStart(start)
	other := Limit(t, "b", rates[1])
	type holder struct {
		charges []limiter.Charge
		results []algo.Result
	}
	take := func(after time.Duration, want bool) holder {
		t.Helper()
		charges := []limiter.Charge{{Limit: l, Cost: 1}, {Limit: other, Cost: 1}}
		allowed, results := p.take(t, start.Add(after), charges, nil)
		if allowed != want {
			t.Fatalf("take after %s: got allowed %t, want %t", after, allowed, want)
		}
		return holder{charges[:1], results[:1]}
	}
	release := func(after time.Duration, h holder) {
		t.Helper()
		p.settle(t, start.Add(after), h.charges, h.results, after)
		p.inspect(t)
	}
	const s1 = time.Second
	first, dead := take(0, true), take(1*s1, true)
	third := take(2*s1, true)
	take(3*s1, false)
	release(4*s1, first)
	release(4*s1, first)
	take(5*s1, true)
	take(5*s1, false)
	release(6*s1, third)
	take(6*s1, true)
	take(61*s1-1, false)
	take(61*s1, true) // the slot of the dead holder has expired
	release(61*s1, dead)
	take(61*s1, false)
	p.reset(t)
	take(62*s1, true)
	release(63*s1, first)
	take(63*s1, true)
	take(63*s1, true)
	take(64*s1, false)
}

// testSlotsReleasedTwice takes slots at a few instants, again and again, and releases each several times. A second
// release releases no slot of another request. So a request is admitted exactly if fewer than the limit are in flight.
func testSlotsReleasedTwice(t *testing.T, s Suite) {
	store := s.Open(t)
	// The numbers of slots that begin just before a full millisecond soon begin again.
	instants := []algo.Instant{start, start, start + 1, algo.SlotStart(start) - 2, start.Add(time.Millisecond), start.Add(-time.Second)}
	rapid.Check(t, func(t *rapid.T) {
		p := newPairOf(store, s)
		l := Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: rapid.Int64Range(1, 4).Draw(t, "requests"), Window: time.Minute})
		type holder struct {
			results []algo.Result
			ended   bool
		}
		var holders []*holder
		running := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now := rapid.SampledFrom(instants).Draw(t, "now")
			if i := rapid.IntRange(-len(holders)-1, len(holders)-1).Draw(t, "release"); i >= 0 {
				h := holders[i]
				p.settle(t, now, one(l, 1), h.results, 0)
				if !h.ended {
					h.ended, running = true, running-1
				}
				continue
			}
			allowed, results := p.take(t, now, one(l, 1), nil)
			if allowed != (running < l.Rate.Requests) {
				t.Fatalf("with %d of %d in flight: got allowed %t", running, l.Rate.Requests, allowed)
			}
			if allowed {
				holders = append(holders, &holder{results: results})
				running++
			}
		}
	})
}

// testSlotsChanged changes the parameters while slots are taken. The slots stay taken, and their holders can
// release them under the old and the new parameters.
func testSlotsChanged(t *testing.T, s Suite) {
	for name, rate := range map[string]algo.Rate{
		"more":    {Algorithm: algo.Concurrent, Requests: 7, Window: time.Minute},
		"fewer":   {Algorithm: algo.Concurrent, Requests: 2, Window: time.Minute},
		"longer":  {Algorithm: algo.Concurrent, Requests: 5, Window: time.Hour},
		"shorter": {Algorithm: algo.Concurrent, Requests: 5, Window: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p, l := newPair(t, s), Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: 5, Window: time.Minute})
			next := changed(t, l, 2, rate)
			var held [][]algo.Result
			for i := range 4 {
				_, results := p.take(t, start.Add(time.Duration(i)*20*time.Second), one(l, 1), nil)
				held = append(held, results)
			}
			now := start.Add(70 * time.Second)
			if allowed, results := p.take(t, now, one(next, 1), nil); allowed {
				held = append(held, results)
			}
			p.inspect(t)
			for i, results := range held {
				p.settle(t, now, one([]*limiter.Limit{l, next}[i%2], 1), results, time.Second)
				p.inspect(t)
			}
			if _, results := p.take(t, now, one(next, 0), nil); results[0].Remaining(now) != next.MaxCost() {
				t.Errorf("after all releases: got %d free slots, want %d", results[0].Remaining(now), next.MaxCost())
			}
		})
	}
}

// testSlotsExpired checks that a limit admits a request when all its slots have expired, for few and for
// many slots.
func testSlotsExpired(t *testing.T, s Suite) {
	for _, n := range []int64{3, 50, algo.MaxSlots} {
		p, l := newPair(t, s), Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: n, Window: time.Minute})
		for taken := int64(0); taken < n; taken += 30 {
			p.take(t, start.Add(time.Duration(taken)), one(l, min(30, n-taken)), nil)
		}
		now := algo.SlotStart(start).Add(time.Minute)
		p.take(t, now-1, one(l, 1), nil)
		p.take(t, now, one(l, 0), nil)
		if allowed, results := p.take(t, now, one(l, 1), nil); !allowed || results[0].Remaining(now) != n-1 {
			t.Errorf("%d expired slots: got allowed %t with %d remaining, want %d", n, allowed, results[0].Remaining(now), n-1)
		}
		p.inspect(t)
	}
}

// testSlotsInFlight takes and releases slots from 256 goroutines with two stores. Exactly n of them get a
// slot. While these goroutines release their slots, other goroutines take slots, and at most n slots are
// taken at any time. In the end, all slots are free.
func testSlotsInFlight(t *testing.T, s Suite) {
	const n, callers, rounds = 12, 256, 3
	stores, who := twoProcesses(t, s), subject()
	limits := []*limiter.Limit{Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: n, Window: time.Minute}), Limit(t, "b", algo.Rate{Algorithm: algo.FixedWindow, Requests: 1e6, Window: time.Hour})}
	charges := []limiter.Charge{{Subject: who, Limit: limits[0], Cost: 1}, {Subject: who, Limit: limits[1], Cost: 1}}
	var admitted int64
	held := make([][]algo.Result, callers) // the results of the callers that have a slot
	for round := range rounds {
		now := start.Add(time.Duration(round) * time.Second)
		before := slices.Clone(held)
		together(t, callers, func(i int) {
			store := stores[i%2]
			if before[i] != nil {
				if settled, err := store.Settle(ctx, now, who, charges[:1], before[i][:1], time.Millisecond, limiter.Once{}); err != nil || settled.Given != 1 {
					t.Errorf("release: got %+v and error %v, want one refund", settled, err)
				}
				held[i] = nil
				return
			}
			results := make([]algo.Result, 2)
			for {
				allowed, err := store.Take(ctx, now.Add(time.Duration(i)), who, charges, results)
				if errors.Is(err, limiter.ErrContended) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				if allowed {
					held[i] = results
				}
				return
			}
		})
		taken := int64(0)
		for i := range held {
			if held[i] != nil {
				taken++
			}
		}
		if admitted += taken; taken > n || round == 0 && taken < n {
			t.Errorf("round %d: got %d slots taken, want at most %d, and exactly that many in round 0", round, taken, n)
		}
	}
	together(t, callers, func(i int) {
		if held[i] == nil {
			return
		}
		if _, err := stores[i%2].Settle(ctx, start, who, charges[:1], held[i][:1], time.Millisecond, limiter.Once{}); err != nil {
			t.Error(err)
		}
	})
	now := start.Add(10 * time.Second)
	results := read(t, stores[0], now, who, limits...)
	if taken := results[0].State.Entries.Len(); taken != 0 || results[0].Remaining(now) != n {
		t.Errorf("in the end: got %d slots taken and %d free, want 0 and %d", taken, results[0].Remaining(now), n)
	}
	if used := results[1].Machine.Used(results[1].State, now); used != admitted {
		t.Errorf("the other limit: got a count of %d, want the %d admissions", used, admitted)
	}
}
