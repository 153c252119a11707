package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

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
