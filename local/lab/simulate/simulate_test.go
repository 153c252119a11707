package simulate

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// small returns parameters with so little traffic that DynamoDB throttles no item.
func small(store Store) Parameters {
	p := Default(store)
	p.Rate, p.Callers, p.Environments, p.ItemWrites = 4000, 500, 100, 1e6
	p.Warmup, p.Measured = time.Second, time.Second
	return p
}

// smallLimits returns limits that refuse many of these requests.
func smallLimits() Limits {
	l := DefaultLimits()
	l.All, l.AllLease, l.Shards = 1500, 50, 4
	return l
}

func limit(t *testing.T, l limiter.Limit) *limiter.Limit {
	t.Helper()
	l.Name = "test"
	made, err := limiter.NewLimit(l)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func simulated(t *testing.T, s Scenario) Result {
	t.Helper()
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if r.Allowed+r.Refused+r.Degraded+r.Away != r.Requests || r.Requests == 0 {
		t.Errorf("%s: got %d allowed, %d refused, %d degraded and %d rejected by Lambda, want a sum of %d", s.Name, r.Allowed, r.Refused,
			r.Degraded, r.Away, r.Requests)
	}
	return r
}

func planned(t *testing.T, p Parameters) []Scenario {
	t.Helper()
	plan, err := Plan(p, smallLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A scenario always has the same result, and another result with another seed.
// The result counts every request.
func TestRun_deterministic(t *testing.T) {
	for _, store := range []Store{DynamoDB, ElastiCache} {
		p := small(store)
		p.Rate, p.Callers, p.ItemWrites, p.CacheECPUs = 2000, 250, 500, 4500
		for i, s := range planned(t, p) {
			first := simulated(t, s)
			if again := simulated(t, s); !reflect.DeepEqual(again, first) {
				t.Errorf("%s, %s: got %+v and then %+v, want equal results", store, s.Name, first, again)
			}
			s.Seed++
			if i == 0 && reflect.DeepEqual(simulated(t, s), first) {
				t.Errorf("%s, %s: got the same result with a different seed, want a different result", store, s.Name)
			}
		}
	}
}

// recorder is a store that records the order of its calls.
type recorder struct {
	limiter.Store
	env    *environment
	served func(at algo.Instant)
}

func (r recorder) Take(ctx context.Context, _ algo.Instant, _ limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	results[0].Machine = charges[0].Limit.Machine()
	if err := r.env.trip(ctx, r.served); err != nil {
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	return true, nil
}

// The store serves calls in the order of their arrival, although environments run ahead of each
// other. Requests are recorded in order of time. The log never has more than about two ticks of
// requests.
func TestRun_order(t *testing.T) {
	p := small(DynamoDB)
	p.Rate, p.Median, p.P99, p.Invocation = 20_000, 5*time.Millisecond, 200*time.Millisecond, 0
	sim := newSimulation(&Scenario{Name: "order", Parameters: p,
		Limit: limit(t, limiter.Limit{Rate: algo.Rate{Requests: 1e6, Window: time.Second}})})
	var call, last algo.Instant
	calls, most := 0, 0
	sim.open = func(e *environment) (limiter.Store, error) {
		return recorder{env: e, served: func(at algo.Instant) {
			if at < call {
				t.Errorf("call %d: got instant %d after %d, want them in order", calls, at, call)
			}
			calls++
			call = at
		}}, nil
	}
	sim.record = func(r *request) {
		if r.at < last {
			t.Errorf("request: got instant %d after %d, want them in order", r.at, last)
		}
		last, most = r.at, max(most, len(sim.log))
	}
	if err := sim.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tick := int(p.Rate * minTick.Seconds()); calls < tick || most == 0 || most > 5*tick/2 {
		t.Errorf("got %d calls and a log of %d requests, want at least %d calls and a log of 1 to %d", calls, most, tick, 5*tick/2)
	}
}

// If the store answers, strict limits, leases and shards admit nothing over the limit. A strict
// limit refuses a request wrongly only if calls arrive out of order.
func TestRun_exact(t *testing.T) {
	for _, store := range []Store{DynamoDB, ElastiCache} {
		p := small(store)
		p.Rate, p.Callers = 2000, 250
		for _, s := range planned(t, p) {
			if s.Limit.Spread.Sync > 0 {
				continue
			}
			r := simulated(t, s)
			if r.over != 0 || r.overMost != 0 || r.Degraded != 0 || r.Refused == 0 {
				t.Errorf("%s, %s: got %d over the limit, %d degraded and %d refused, want 0, 0 and some", store, s.Name, r.over, r.Degraded, r.Refused)
			}
			if strict := (s.Limit.Spread == limiter.Spread{}); strict && r.wronglyRefused*100 > r.Requests {
				t.Errorf("%s, %s: got %d of %d wrongly refused, want at most 1 %%", store, s.Name, r.wronglyRefused, r.Requests)
			}
		}
	}
}

// Environments that synchronize counts each admit at most the limit per interval. A single one
// admits nothing over the limit.
func TestRun_sync(t *testing.T) {
	for n := 1; n <= 8; n *= 2 {
		p := small(ElastiCache)
		p.Rate, p.Environments, p.Invocation, p.Measured = 1500, n, 100*time.Microsecond, 5*time.Second
		p.Median, p.P99 = 100*time.Microsecond, 200*time.Microsecond
		const requests = 300
		r := simulated(t, Scenario{Name: "sync", Parameters: p, Limit: limit(t, limiter.Limit{
			Global: true, Rate: algo.Rate{Requests: requests, Window: time.Second, Algorithm: algo.FixedWindow},
			Spread: limiter.Spread{Sync: time.Second},
		})})
		if r.overMost > int64(n-1)*requests {
			t.Errorf("%d environments: got %d over the limit in a window, want at most %d", n, r.overMost, (n-1)*requests)
		}
		if n > 1 && r.over == 0 {
			t.Errorf("%d environments: got 0 over the limit between synchronizations, want some", n)
		}
		t.Logf("%d environments: %d over the limit of %d", r.Environments, r.overMost, requests)
	}
}

// From the first second on, an item accepts its number of write units per second and throttles
// further writes. Each charge is one write.
func TestRun_hotItem(t *testing.T) {
	for _, rate := range []float64{800, 3000} {
		p := small(DynamoDB)
		p.Rate, p.Environments, p.ItemWrites, p.Warmup, p.Measured = rate, 200, 1000, 0, 3*time.Second
		r := simulated(t, Scenario{Name: "hot", Parameters: p, Limit: limit(t, limiter.Limit{
			Global: true, Rate: algo.Rate{Requests: 1e6, Window: time.Second, Algorithm: algo.FixedWindow}, Spread: limiter.Spread{Lease: 1},
		})})
		hot := rate > p.ItemWrites
		// A few requests are throttled before the item gets its first units.
		if hot != (r.throttled > 30) || hot != (r.Degraded > 10) {
			t.Errorf("%g a second: got %d throttled and %d degraded, want above 30 and 10: %t", rate, r.throttled, r.Degraded, hot)
		}
		if want := min(rate, p.ItemWrites); r.hottest > 1.15*want || !hot && r.hottest < 0.85*want {
			t.Errorf("%g a second: got %g writes in the hottest second, want about %g", rate, r.hottest, want)
		}
		// The item can use more units than there are admitted requests. A call that arrives after its
		// timeout still uses a unit. A retry whose condition fails, because another write came first,
		// uses one too.
		charged := r.Requests - r.Degraded
		if r.calls < charged || r.writes < charged || r.writes > charged+charged/100 {
			t.Errorf("%g a second: got %d calls and %d units, want at least %d, and at most 1 %% more units", rate, r.calls, r.writes, charged)
		}
		// the last requests can end after the measured time, by up to the timeout
		if most := p.ItemWrites*(p.Measured+p.Timeout).Seconds() + 10; float64(r.writes) > most {
			t.Errorf("%g a second: got %d units in %s from the first second on, want at most %g", rate, r.writes, p.Measured, most)
		}
	}
}

// A slot and the cache accept their numbers of ECPUs per second and reject further calls. on_error
// admits the request of a rejected call at once.
func TestRun_ecpus(t *testing.T) {
	for name, test := range map[string]struct {
		slot, cache float64 // ECPUs per second
		limit       limiter.Limit
		most        float64 // scripts per second
	}{
		"a slot has enough ECPUs":  {slot: 30_000, cache: 1e6, limit: limiter.Limit{Global: true}, most: 4000},
		"a slot has too few ECPUs": {slot: 6000, cache: 1e6, limit: limiter.Limit{Global: true}, most: 2000},
		"two slots have twice the ECPUs of one": {slot: 3000, cache: 1e6, limit: limiter.Limit{Global: true, Spread: limiter.Spread{Shards: 2}},
			most: 2000},
		"the cache has enough ECPUs":  {slot: 6000, cache: 30_000, most: 4000},
		"the cache has too few ECPUs": {slot: 6000, cache: 3000, most: 1000},
		"many callers, one slot":      {slot: 3, cache: 30_000, most: 4000},
	} {
		p := small(ElastiCache)
		p.SlotECPUs, p.CacheECPUs, p.Environments, p.Warmup, p.Measured = test.slot, test.cache, 300, 0, 2*time.Second
		test.limit.Rate = algo.Rate{Requests: 1e6, Window: time.Second}
		r := simulated(t, Scenario{Name: name, Parameters: p, Limit: limit(t, test.limit)})
		got, scarce := float64(r.writes)/p.Measured.Seconds(), r.writes < r.Requests
		if scarce != strings.Contains(name, "too few") && name != "many callers, one slot" && name != "two slots have twice the ECPUs of one" {
			t.Errorf("%s: got %d scripts for %d requests, want fewer scripts only if there are too few ECPUs", name, r.writes, r.Requests)
		}
		if got > test.most+1 && scarce || scarce != (r.throttled > 0) || scarce != (r.Degraded > 0) || r.P99 >= p.Timeout {
			t.Errorf("%s: got %g scripts a second, want at most %g; got %d throttled and %d degraded, want some: %t; got p99 %s, want less than %s",
				name, got, test.most, r.throttled, r.Degraded, scarce, r.P99, p.Timeout)
		}
	}
}

// The denial cache refuses a flooding caller's requests without store calls.
func TestRun_cached(t *testing.T) {
	p := small(DynamoDB)
	p.Callers, p.Environments, p.Invocation = 1, 4, 10*time.Microsecond
	r := simulated(t, Scenario{Name: "flood", Parameters: p,
		Limit: limit(t, limiter.Limit{Rate: algo.Rate{Requests: 10, Window: time.Second, Algorithm: algo.FixedWindow}})})
	if r.Allowed != 10 || r.calls > 50 || r.Cached != r.Requests-r.Away-r.calls {
		t.Errorf("result: got %d allowed, %d calls and %d refused by the denial cache, want 10, at most 50 and %d", r.Allowed, r.calls, r.Cached,
			r.Requests-r.Away-r.calls)
	}
}

// The judge compares a short list of decisions with the algorithm. The limit is 2 requests per
// window of 10 seconds; windows count from 100 s on.
func TestJudge(t *testing.T) {
	two := limit(t, limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 2, Window: 10 * time.Second}})
	at := func(caller uint32, at time.Duration, admitted bool) request {
		return request{caller: caller, at: algo.Instant(at * time.Second), admitted: admitted}
	}
	v := judged(newJudge(&Scenario{Limit: two}, algo.Instant(100*time.Second)), []request{
		at(2, 90, true), at(2, 91, true), at(2, 92, true), at(2, 93, true), // warm-up
		at(1, 101, false), at(1, 102, true), at(1, 103, true), // in one window, one wrong refusal and one wrong admission
		at(1, 111, false), at(1, 112, true), // one wrong refusal
		at(1, 121, true), at(1, 122, true), at(1, 123, true), at(1, 124, true), // two requests too many
		at(1, 131, true), at(1, 132, true), at(1, 133, true), // one request too many
		at(2, 101, true), at(2, 102, true), at(2, 103, true), // one request too many
		{caller: 3, at: 101, away: true},
	})
	if want := (verdict{due: 10, wronglyRefused: 1, over: 4, overMost: 2, refusing: 2, missingMost: 1}); v != want {
		t.Errorf("verdict: got %+v, want %+v", v, want)
	}
}

func judged(j *judge, log []request) verdict {
	slices.SortStableFunc(log, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	for i := range log {
		j.add(&log[i])
	}
	return j.close()
}
