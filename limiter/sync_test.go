package limiter_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// traffic is a Poisson process of requests. Each request goes to a random environment.
type traffic struct {
	t      *testing.T
	all    []*limiter.Limiter
	charge limiter.Charge
	random *rand.Rand
	now    time.Time
}

func synced(t *testing.T, n int, store limiter.Store, l limiter.Limit) *traffic {
	l.Name, l.Global, l.Spread.Sync = "all", true, cmp.Or(l.Spread.Sync, limiter.DefaultSync)
	tr := &traffic{t: t, random: rand.New(rand.NewPCG(1, uint64(n))), now: noon, charge: limiter.Charge{Subject: limiter.Global(),
		Limit: limit(t, l), Cost: 1}}
	for range n {
		tr.all = append(tr.all, storetest.Must(limiter.New(store, limiter.Options{IntN: tr.random.IntN, Logger: slog.New(slog.DiscardHandler)})))
	}
	return tr
}

// run sends requests at a rate for a time. It returns the numbers of sent and of admitted requests.
func (tr *traffic) run(rate float64, during time.Duration) (came, admitted int) {
	for end := tr.now.Add(during); ; {
		next := tr.now.Add(time.Duration(tr.random.ExpFloat64() * float64(time.Second) / rate))
		if next.After(end) {
			tr.now = end
			return came, admitted
		}
		tr.now = next
		came++
		d, err := tr.all[tr.random.IntN(len(tr.all))].Take(ctx, tr.now, []limiter.Charge{tr.charge})
		if err != nil {
			tr.t.Fatal(err)
		}
		if !d.Allowed && d.Reason == limiter.ReasonNone && (d.Limit != tr.charge.Limit || d.RetryAfter <= 0 || d.Superseded) {
			tr.t.Fatalf("got %+v, want an admission", d)
		}
		if d.Allowed {
			admitted++
		}
	}
}

// After their first reports, the environments together admit the limit. If the traffic is below the
// limit, they refuse almost no request.
func TestSync(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		for _, n := range []int{1, 3, 20, 300} {
			store := newRemote()
			tr := synced(t, n, store, limiter.Limit{Rate: algo.Rate{Algorithm: algorithm, Requests: 2000, Window: time.Second}})
			if came, admitted := tr.run(1000, 8*time.Second); admitted*100 < came*99 {
				t.Errorf("%s, %d environments at half the limit: %d of %d requests admitted, want at least 99 %%", algorithm, n, admitted, came)
			}
			tr.run(4000, 4*time.Second)
			calls := store.takes.Load()
			if _, admitted := tr.run(4000, 8*time.Second); admitted > 16_000*105/100 || admitted < 16_000*90/100 {
				t.Errorf("%s, %d environments at twice the limit: %d admitted in 8 s, want 14400 to 16800", algorithm, n, admitted)
			}
			calls = store.takes.Load() - calls
			if calls > int64(min(500, 2*n+2)*8) {
				t.Errorf("%s, %d environments: %d store calls in 8 s, want at most %d", algorithm, n, calls, min(500, 2*n+2)*8)
			}
		}
	}
}

// The bound holds from the shortest to the longest interval.
func TestSync_intervals(t *testing.T) {
	for _, interval := range []time.Duration{limiter.MinSync, limiter.MaxSync} {
		for _, n := range []int{1, 3, 20} {
			tr := synced(t, n, newRemote(), limiter.Limit{Rate: algo.Rate{Requests: 2000, Window: 2 * time.Second},
				Spread: limiter.Spread{Sync: interval}})
			tr.run(500, 10*time.Second)
			tr.run(2000, 10*time.Second)
			if _, admitted := tr.run(2000, 20*time.Second); admitted > 20_000*105/100 || admitted < 20_000*90/100 {
				t.Errorf("%s, %d processes at twice the limit: %d admitted in 20 s, want 18000 to 21000", interval, n, admitted)
			}
		}
	}
}

// When demand rises fivefold, the excess stays within the bound that Spread.Sync documents. The bound
// has two parts: two seconds of the limit; and for each environment, one request plus twice the square
// root of its requests per second.
func TestSync_surge(t *testing.T) {
	const requests = 4000
	for _, n := range []int{20, 300} {
		tr := synced(t, n, newRemote(), limiter.Limit{Rate: algo.Rate{Requests: requests, Window: time.Second}})
		tr.run(requests/2, 10*time.Second)
		most := 2*float64(requests) + float64(n)*(1+2*math.Sqrt(float64(requests)/float64(n)))
		over := 0.0
		for range 10 {
			_, admitted := tr.run(requests*5/2, time.Second)
			over += float64(admitted) - requests*1.05
			t.Log(n, admitted, over)
			if over > most {
				t.Fatalf("%d environments: %g requests above the limit, want at most %g", n, over, most)
			}
		}
		if _, admitted := tr.run(requests*5/2, 4*time.Second); admitted > 4*requests*105/100 {
			t.Errorf("%d environments, after ten seconds: %d admitted in 4 s, want %d", n, admitted, 4*requests)
		}
	}
}

// For a long window, the store counts the admissions. The environments share the remaining quota, and use
// all of it.
func TestSync_longWindow(t *testing.T) {
	const requests = 30_000
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		tr := synced(t, 20, newRemote(), limiter.Limit{Rate: algo.Rate{Algorithm: algorithm, Requests: requests, Window: time.Minute}})
		// The window is empty, so 5000 requests a second are admitted at once: ten times the average rate of
		// the limit.
		if came, admitted := tr.run(5000, 3*time.Second); admitted*100 < came*99 {
			t.Errorf("%s: %d of %d requests admitted in an empty window, want at least 99 %%", algorithm, admitted, came)
		}
		total := 15_000
		_, admitted := tr.run(5000, 56*time.Second)
		total += admitted
		most := requests
		if algorithm == algo.TokenBucket { // a bucket refills during the test
			most *= 2
		}
		if total > most*105/100 || total < most*90/100 {
			t.Errorf("%s: %d admitted in a minute, want about %d", algorithm, total, most)
		}
	}
}

// If calls and answers are lost, the store counts no admission twice.
func TestSync_lost(t *testing.T) {
	for seed := range uint64(20) {
		store := newLossy(seed)
		tr := synced(t, 5, store, limiter.Limit{OnError: limiter.OnErrorAllow, Rate: algo.Rate{Requests: 10_000, Window: 24 * time.Hour}})
		_, admitted := tr.run(100, 20*time.Second)
		if counted := used(t, store, tr.now, tr.charge); counted > int64(admitted) || counted == 0 {
			t.Errorf("seed %d: got %d requests in the store, want 1 to %d, the number of admissions", seed, counted, admitted)
		}
	}
}

// A throttled item does not stop the environments. They continue with their current shares and
// report less often. In an outage, on_error decides.
func TestSync_failure(t *testing.T) {
	for _, c := range []struct {
		failure error
		policy  limiter.OnError
		least   int
		reason  limiter.Reason
	}{
		{limiter.ErrItemThrottled, limiter.OnErrorDeny, 4950, limiter.ReasonNone},
		{limiter.ErrBreakerOpen, limiter.OnErrorAllow, 4950, limiter.ReasonBreaker},
		{limiter.ErrBreakerOpen, limiter.OnErrorDeny, 0, limiter.ReasonBreaker},
	} {
		store := newRemote()
		tr := synced(t, 10, store, limiter.Limit{OnError: c.policy, Rate: algo.Rate{Requests: 2000, Window: time.Second}})
		tr.run(1000, 5*time.Second)
		store.fail = map[limiter.Subject]error{limiter.Global(): errors.Join(limiter.ErrUnavailable, c.failure)}
		tr.run(100, 2*time.Second)
		calls := store.takes.Load()
		came, admitted := tr.run(1000, 5*time.Second)
		if admitted*5000 < c.least*came || c.least == 0 && admitted > 0 {
			t.Errorf("%v, %s: %d of %d requests admitted, want %d of 5000", c.failure, c.policy, admitted, came, c.least)
		}
		if n := store.takes.Load() - calls; errors.Is(c.failure, limiter.ErrItemThrottled) && n > 30 {
			t.Errorf("%v: %d store calls in 5 s, want at most 30", c.failure, n)
		}
		if d, err := tr.all[0].Take(ctx, tr.now, []limiter.Charge{tr.charge}); err != nil || d.Reason != c.reason || d.Failed != (c.least == 0) {
			t.Errorf("%v, %s: got %+v, error %v; want reason %q and Failed %t", c.failure, c.policy, d, err, c.reason, c.least == 0)
		}
	}
}

// If the first read of the item is throttled, an environment still admits requests.
func TestSync_throttledFromStart(t *testing.T) {
	store := newRemote()
	store.fail = map[limiter.Subject]error{limiter.Global(): errors.Join(limiter.ErrUnavailable, limiter.ErrItemThrottled)}
	tr := synced(t, 10, store, limiter.Limit{OnError: limiter.OnErrorDeny, Rate: algo.Rate{Requests: 2000, Window: time.Second}})
	if came, admitted := tr.run(1000, 5*time.Second); admitted != came {
		t.Errorf("%d of %d requests admitted, want all", admitted, came)
	}
	store.fail = nil
	tr.run(4000, 12*time.Second)
	if _, admitted := tr.run(4000, 4*time.Second); admitted > 8400 {
		t.Errorf("%d of 8000 requests admitted in 4 s after the item answers again, want at most 8400", admitted)
	}
}

// A charge counts neither as demand nor as an admission if another limit refuses the request, or if the
// charge is refunded before its report.
func TestSync_undo(t *testing.T) {
	store := newRemote()
	tr := synced(t, 1, store, limiter.Limit{Rate: algo.Rate{Requests: 10_000, Window: 24 * time.Hour}})
	e := tr.all[0]
	_, before := tr.run(1000, 3*time.Second)
	for range 50 {
		if takeAt(t, e, tr.now, tr.charge, limiter.Charge{Subject: user, Limit: tight, Cost: 1}).Allowed {
			before++
		}
		_, receipt, err := e.TakeRefundable(ctx, tr.now, []limiter.Charge{tr.charge})
		if err != nil {
			t.Fatal(err)
		}
		receipt.Refund(ctx, tr.now)
	}
	tr.now = tr.now.Add(time.Minute)
	takeAt(t, e, tr.now, tr.charge)
	if counted := used(t, store, tr.now, tr.charge); counted != int64(before) {
		t.Errorf("got %d admissions in the store, want %d", counted, before)
	}
	_, receipt, err := e.TakeRefundable(ctx, tr.now, []limiter.Charge{tr.charge})
	if err != nil {
		t.Fatal(err)
	}
	tr.now = tr.now.Add(time.Minute)
	takeAt(t, e, tr.now, tr.charge)
	receipt.Refund(ctx, tr.now)
	tr.now = tr.now.Add(time.Minute)
	takeAt(t, e, tr.now, tr.charge)
	if counted := used(t, store, tr.now, tr.charge); counted != int64(before+3) {
		t.Errorf("after a refund of a reported charge: got %d admissions in the store, want %d", counted, before+3)
	}
}

// demands records the demand that a process reports for a limit.
type demands struct {
	*remote
	of      *limiter.Limit
	reports []int64
}

// Take implements limiter.Store.
func (d *demands) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	for _, c := range charges {
		if c.Limit == d.of.Syncs().Demand {
			d.reports = append(d.reports, c.Cost)
		}
	}
	return d.remote.Take(ctx, now, s, charges, results)
}

// The demand of a request that a counter refuses counts once, although the counters of its other limits synchronize often.
func TestSync_demandOnce(t *testing.T) {
	refuses := limit(t, limiter.Limit{Name: "a", Global: true, Rate: algo.Rate{Requests: 1, Window: 24 * time.Hour},
		Spread: limiter.Spread{Sync: limiter.MaxSync}})
	due := limit(t, limiter.Limit{Name: "b", Global: true, Rate: algo.Rate{Requests: 1_000_000, Window: time.Hour},
		Spread: limiter.Spread{Sync: limiter.MinSync}})
	store := &demands{remote: newRemote(), of: refuses}
	e := storetest.Must(limiter.New(store, limiter.Options{IntN: func(n int) int { return n / 2 }}))
	sent, compared := int64(0), 0
	for i := range 600 {
		now, reported := noon.Add(time.Duration(i)*100*time.Millisecond), len(store.reports)
		d := takeAt(t, e, now, limiter.Charge{Subject: limiter.Global(), Limit: refuses, Cost: 1},
			limiter.Charge{Subject: limiter.Global(), Limit: due, Cost: 1})
		if len(store.reports) > reported {
			if got := store.reports[reported]; i > 100 { // the first reports are estimates
				compared++
				if got != sent || d.Allowed {
					t.Errorf("report at %s: got a demand of %d and an admission %t, want %d and false", now, got, d.Allowed, sent)
				}
			}
			sent = 0
		}
		sent++
	}
	if compared < 3 {
		t.Errorf("got %d reports, want at least 3", compared)
	}
}

// A request can cost more than the share of its environment and still be admitted.
func TestSync_costs(t *testing.T) {
	tr := synced(t, 50, newRemote(), limiter.Limit{Rate: algo.Rate{Requests: 2000, Window: time.Second}})
	tr.charge.Cost = 400 // the share of each environment is 40 units a second
	if came, admitted := tr.run(2, 20*time.Second); admitted != came {
		t.Errorf("%d of %d requests admitted, want all", admitted, came)
	}
	tr.run(10, 30*time.Second)
	if _, admitted := tr.run(10, 60*time.Second); admitted > 60*5*115/100 || admitted < 60*5*70/100 {
		t.Errorf("%d admitted in a minute, want 300", admitted)
	}
}

// Inspect returns the usage that all environments have reported, scaled to the limit.
func TestSync_inspect(t *testing.T) {
	tr := synced(t, 10, newRemote(), limiter.Limit{Rate: algo.Rate{Requests: 2000, Window: time.Second}})
	tr.run(1000, 12*time.Second)
	list, err := tr.all[0].Inspect(ctx, tr.now, []limiter.Charge{tr.charge})
	if err != nil || len(list) != 1 || list[0].Capacity != 2000 || list[0].Remaining < 850 || list[0].Remaining > 1150 || list[0].Superseded {
		t.Errorf("got %+v, %v, want half of 2000 to remain", list, err)
	}
}

// An environment that was idle for longer than the window still reports the requests that it admitted before.
func TestSync_idle(t *testing.T) {
	store := newRemote()
	tr := synced(t, 1, store, limiter.Limit{Rate: algo.Rate{Algorithm: algo.SlidingWindow, Requests: 10_000, Window: 24 * time.Hour}})
	_, admitted := tr.run(1000, 3*time.Second)
	if reported := used(t, store, tr.now, tr.charge); reported >= int64(admitted) {
		t.Fatalf("got %d of %d admissions in the store, want some that are not reported yet", reported, admitted)
	}
	tr.now = noon.Add(26 * time.Hour) // 10 of the 24 hours of the previous window still count
	takeAt(t, tr.all[0], tr.now, tr.charge)
	if counted, least := used(t, store, tr.now, tr.charge), int64(admitted)*10/24; counted < least {
		t.Errorf("after 26 hours: got a count of %d in the store, want at least %d", counted, least)
	}
}
