//go:build !race

package simulate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// fleets are the numbers of environments to simulate.
var fleets = []int{20, 600}

// One caller sends more than an item's write rate. Every algorithm admits at most 1 % over the
// limit. Quiet callers in the same partition are throttled too, but lose at most 1 % of their
// requests.
func TestPressure_hotItem(t *testing.T) {
	type scenario struct {
		limit  limiter.Limit
		rate   float64
		length time.Duration
	}
	scenarios := map[string]scenario{
		"10000 a day": {limiter.Limit{Rate: algo.Rate{Requests: 10_000, Window: 24 * time.Hour}}, 2000, 9 * time.Second},
		"10000 a day, lease": {limiter.Limit{Rate: algo.Rate{Requests: 10_000, Window: 24 * time.Hour}, Spread: limiter.Spread{Lease: 100}},
			2000, 9 * time.Second},
		"10000 a minute": {limiter.Limit{Rate: algo.Rate{Requests: 10_000, Window: time.Minute}}, 5000, 6 * time.Second},
		"10000 a minute, bucket": {limiter.Limit{Rate: algo.Rate{Requests: 10_000, Window: time.Minute, Algorithm: algo.TokenBucket}}, 5000,
			6 * time.Second},
	}
	// at the second rate, the reads of 600 environments are throttled too
	for rate, length := range map[float64]time.Duration{2000: 9 * time.Second, 20_000: 30 * time.Second} {
		for name, small := range map[string]algo.Rate{
			"600 a minute, fixed":  {Requests: 600, Window: time.Minute, Algorithm: algo.FixedWindow},
			"600 a minute":         {Requests: 600, Window: time.Minute, Algorithm: algo.SlidingWindow},
			"600 a minute, bucket": {Requests: 600, Window: time.Minute, Algorithm: algo.TokenBucket},
			"log of 300 an hour":   {Requests: 300, Window: time.Hour, Algorithm: algo.SlidingLog},
		} {
			scenarios[fmt.Sprintf("%s at %.0f", name, rate)] = scenario{limiter.Limit{Rate: small}, rate, length}
		}
	}
	for name, c := range scenarios {
		fleets := fleets
		if c.limit.Rate.Requests < 1000 {
			fleets = fleets[1:]
		}
		for _, n := range fleets {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				hot, quiet := one("hot", c.rate, local(t, c.limit)), quiet(t)
				runFleet(t, n, c.length, crowd, hot, quiet)
				withinLimit(t, hot)
				servesHonest(t, quiet, 0)
			})
		}
	}
}

// Six callers flood at once, each with its own item and partition. An environment then has several
// throttled subjects.
func TestPressure_hotItems(t *testing.T) {
	for _, requests := range []int64{60, 5000} {
		for _, n := range fleets {
			t.Run(fmt.Sprintf("%d a minute, %d", requests, n), func(t *testing.T) {
				t.Parallel()
				var callers []*stream
				for i := range 6 {
					callers = append(callers, one(fmt.Sprint("hot", i), 2000,
						local(t, limiter.Limit{Rate: algo.Rate{Requests: requests, Window: time.Minute}})))
				}
				runFleet(t, n, 7*time.Second, func(*table) {}, callers...)
				for _, c := range callers {
					withinLimit(t, c)
				}
			})
		}
	}
}

// A caller stays below half of its limit, but above the write rate of its item. It gets leases and
// loses at most 1 % of its requests.
func TestPressure_hotHonest(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		for _, n := range fleets {
			t.Run(fmt.Sprintf("%s, %d", algorithm, n), func(t *testing.T) {
				t.Parallel()
				hot, quiet := one("hot", 2000, local(t, limiter.Limit{Rate: algo.Rate{Requests: 300_000, Window: time.Minute, Algorithm: algorithm}})),
					quiet(t)
				runFleet(t, n, 15*time.Second, crowd, hot, quiet)
				servesHonest(t, hot, 0)
				servesHonest(t, quiet, 0)
			})
		}
	}
}

func one(name string, rate float64, l *limiter.Limit) *stream {
	return &stream{name: name, rate: rate, charges: func(int) []limiter.Charge {
		return []limiter.Charge{{Subject: limiter.User(name), Limit: l, Cost: 1}}
	}}
}

// quiet returns a stream of callers that stay below half of their limits.
func quiet(t *testing.T) *stream {
	l := local(t, limiter.Limit{Rate: algo.Rate{Requests: 60, Window: time.Minute}})
	return &stream{name: "quiet", rate: 45, callers: 100, charges: func(caller int) []limiter.Charge {
		return []limiter.Charge{{Subject: limiter.User(fmt.Sprintf("quiet%d", caller)), Limit: l, Cost: 1}}
	}}
}

// local returns l with on_error local: in an outage, each environment enforces it with a local
// count.
func local(t *testing.T, l limiter.Limit) *limiter.Limit {
	l.OnError = limiter.OnErrorLocal
	return limit(t, l)
}

// crowd puts all items into one partition.
func crowd(t *table) { t.crowded = newPartition(t.rate, t.from) }

// withinLimit checks that the caller of a stream with one limit got at most that limit.
func withinLimit(t *testing.T, s *stream) {
	t.Helper()
	l := s.charges(0)[0].Limit
	v := judged(newJudge(&Scenario{Limit: l}, 0), s.log)
	over := 100 * float64(v.overMost) / float64(l.Machine().Capacity())
	t.Logf("%s: %d of %d admitted, %d degraded; %d above the limit (%.2f %%)", s.name, s.admitted, len(s.log), s.degraded, v.overMost, over)
	if over > 1 {
		t.Errorf("%s: got %.2f %% above the limit, want at most 1 %%", s.name, over)
	}
}

// servesHonest checks callers below half of their limits. due is the number of refusals that are
// correct; all others are wrong.
func servesHonest(t *testing.T, s *stream, due int) {
	t.Helper()
	lost := 100 * float64(s.refused-due) / float64(len(s.log))
	t.Logf("%s: %d of %d refused, %d correctly; wrong refusals %.2f %%, %d degraded", s.name, s.refused, len(s.log), due, lost, s.degraded)
	if lost > 1 || math.IsNaN(lost) {
		t.Errorf("%s: got %.2f %% wrong refusals, want at most 1 %%", s.name, lost)
	}
}

// While DynamoDB throttles the whole table, no caller below its limit is refused, even one that was
// over it before.
func TestPressure_table(t *testing.T) {
	for _, n := range fleets {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			always, returns, greedy := quiet(t), quiet(t), quiet(t)
			greedy.rate, greedy.callers, greedy.stop, greedy.name = 2000, returns.callers, 4*time.Second, "greedy"
			always.charges = named(always, "always")
			returns.start, returns.name = 90*time.Second, "returns" // the same callers as in greedy, which come back later
			runFleet(t, n, 2*time.Minute, func(t *table) {
				from := t.from.Add(95 * time.Second)
				t.throttled = func(at algo.Instant) bool { return at > from && at < from.Add(20*time.Second) }
			}, always, greedy, returns)
			if greedy.refused == 0 {
				t.Error("refused requests before the throttling: got 0, want some")
			}
			servesHonest(t, always, 0)
			servesHonest(t, returns, 0)
		})
	}
}

// named returns charges as s does, for callers with this name.
func named(s *stream, name string) func(int) []limiter.Charge {
	charges := s.charges
	return func(caller int) []limiter.Charge {
		list := charges(caller)
		list[0].Subject = list[0].Subject.And(limiter.User(name))
		return list
	}
}

// A request that the caller's own limit refuses takes nothing from the limit of all callers. This
// holds even for a fast bucket, which cannot refund a charge.
func TestPressure_drain(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		for _, n := range fleets {
			t.Run(fmt.Sprintf("%s, %d", algorithm, n), func(t *testing.T) {
				t.Parallel()
				shared := local(t, limiter.Limit{Global: true, Rate: algo.Rate{Requests: 500, Window: time.Second, Burst: 500,
					Algorithm: algo.TokenBucket}})
				own := local(t, limiter.Limit{Rate: algo.Rate{Requests: 60, Window: time.Minute, Algorithm: algorithm}})
				low := local(t, limiter.Limit{Rate: algo.Rate{Requests: 1, Window: time.Hour, Algorithm: algorithm}})
				both := func(name string, l *limiter.Limit) func(int) []limiter.Charge {
					return func(caller int) []limiter.Charge {
						return []limiter.Charge{{Subject: limiter.User(fmt.Sprint(name, caller)), Limit: l, Cost: 1},
							{Subject: limiter.Global(), Limit: shared, Cost: 1}}
					}
				}
				honest := &stream{name: "honest", rate: 200, start: 3 * time.Second, callers: 500, charges: both("honest", own)}
				refused := &stream{name: "refused", rate: 2000, callers: 1000, charges: both("refused", low)}
				runFleet(t, n, 7*time.Second, func(*table) {}, honest, refused)
				t.Logf("refused: %d of %d admitted", refused.admitted, len(refused.log))
				servesHonest(t, honest, 0)
			})
		}
	}
}
