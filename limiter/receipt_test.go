package limiter_test

import (
	"context"
	"log/slog"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A settlement makes one store call for each subject whose costs differ, and counts the actual costs.
func TestReceipt_Settle(t *testing.T) {
	input, output, calls := perMinute(t, "input", 1000), perMinute(t, "output", 1000), perMinute(t, "calls", 60)
	all := perMinute(t, "all", 5000)
	charges := []limiter.Charge{{Subject: user, Limit: input, Cost: 100}, {Subject: user, Limit: output, Cost: 200},
		{Subject: user, Limit: calls, Cost: 1}, {Subject: limiter.Global(), Limit: all, Cost: 300}}
	for name, c := range map[string]struct {
		actual map[string]int64
		stores int64
		want   limiter.Settlement
	}{
		"as reserved": {map[string]int64{"input": 100, "output": 200, "all": 300}, 0, limiter.Settlement{}},
		"less":        {map[string]int64{"input": 10, "output": 20, "all": 300}, 1, limiter.Settlement{Refunds: limiter.Refunds{Given: 2}}},
		"both subjects": {map[string]int64{"input": 10, "output": 220, "all": 230}, 2, limiter.Settlement{Refunds: limiter.Refunds{Given: 2},
			Charged: 1}},
		"over the limit": {map[string]int64{"input": 1100, "output": 200, "all": 1300}, 2, limiter.Settlement{Charged: 2}},
		"over the debt": {map[string]int64{"input": 100, "output": 9000, "all": 300}, 1, limiter.Settlement{Charged: 1,
			Excess: []limiter.Excess{{Subject: user, Limit: output, Cost: 7000}}}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newRemote()
			l := storetest.Must(limiter.New(store, limiter.Options{}))
			d, receipt, err := l.TakeRefundable(ctx, noon, charges)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			actual := func(charge limiter.Charge) int64 {
				if n, ok := c.actual[charge.Limit.Name]; ok {
					return n
				}
				return charge.Cost
			}
			got := receipt.Settle(ctx, noon, actual)
			if !reflect.DeepEqual(got, c.want) || store.refunds.Load() != c.stores {
				t.Errorf("got %+v with %d store calls, want %+v with %d", got, store.refunds.Load(), c.want, c.stores)
			}
			if again := receipt.Settle(ctx, noon, actual); !reflect.DeepEqual(again, limiter.Settlement{}) || store.refunds.Load() != c.stores {
				t.Errorf("a second settlement: got %+v, want nothing", again)
			}
			for _, charge := range charges {
				charges := []limiter.Charge{{Subject: charge.Subject, Limit: charge.Limit}}
				results := make([]algo.Result, 1)
				if _, err := store.Take(ctx, algo.InstantOf(noon), charge.Subject, charges, results); err != nil {
					t.Fatal(err)
				}
				if used, want := results[0].Machine.Used(results[0].State, algo.InstantOf(noon)),
					min(actual(charge), 2*charge.Limit.Rate.Requests); used != want {
					t.Errorf("limit %s: got a count of %d, want %d", charges[0].Limit.Name, used, want)
				}
			}
		})
	}
}

// If other requests used a bucket since the charge, its refund leaves out the part that has leaked. If
// the whole charge has leaked, the refund is reported as dropped.
func TestReceipt_Settle_late(t *testing.T) {
	bucket := limit(t, limiter.Limit{Name: "bucket", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute}})
	charge := limiter.Charge{Subject: user, Limit: bucket, Cost: 20}
	for elapsed, want := range map[time.Duration]limiter.Settlement{
		5 * time.Second:  {Refunds: limiter.Refunds{Given: 1}},
		20 * time.Second: {Refunds: limiter.Refunds{Dropped: 1}},
	} {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		takeAt(t, l, noon, charge)
		if got := receipt.Settle(ctx, noon.Add(elapsed), func(limiter.Charge) int64 { return 5 }); !reflect.DeepEqual(got, want) {
			t.Errorf("after %s: got %+v, want %+v", elapsed, got, want)
		}
	}
}

// A cost below 0 counts as 0, so a settlement refunds at most the whole charge.
func TestReceipt_Settle_negative(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Limit: perMinute(t, "input", 1000), Cost: 100}
	takeAt(t, l, noon, charge)
	for _, actual := range []int64{-1, -50, math.MinInt64} {
		_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{charge})
		if err != nil {
			t.Fatal(err)
		}
		receipt.Settle(ctx, noon, func(limiter.Charge) int64 { return actual })
		if d, err := l.Peek(ctx, noon, []limiter.Charge{charge}); err != nil || d.Remaining != 900 {
			t.Errorf("a cost of %d: got %d remaining, %v; want 900", actual, d.Remaining, err)
		}
	}
}

// After an idle time, a settlement may wait as long for a connection as a decision.
func TestReceipt_Settle_connects(t *testing.T) {
	for _, connect := range []time.Duration{0, 900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			store := &slowSettle{hanging: &hanging{remote: newRemote(), answers: true}, takes: 200 * time.Millisecond}
			l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
			_, receipt, err := l.TakeRefundable(ctx, time.Now(), []limiter.Charge{{Subject: user, Limit: perMinute(t, "input", 1000), Cost: 100}})
			if err != nil {
				t.Fatal(err)
			}
			store.first = connect
			want := limiter.Settlement{Charged: 1}
			if connect == 0 {
				want = limiter.Settlement{Lost: 1}
			}
			if got := receipt.Settle(ctx, time.Now(), func(limiter.Charge) int64 { return 105 }); !reflect.DeepEqual(got, want) {
				t.Errorf("time to connect %s: got %+v, want %+v", connect, got, want)
			}
		})
	}
}

// slowSettle is a store whose settlements take some time.
type slowSettle struct {
	*hanging
	takes time.Duration
}

func (s *slowSettle) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	select {
	case <-time.After(s.takes):
		return s.remote.Settle(ctx, now, subject, charges, results, elapsed)
	case <-ctx.Done():
		return limiter.Settled{}, ctx.Err()
	}
}

// In an outage, a settlement reports a cost beyond the max debt once. If processes divide the limit, the max debt is
// the max debt of this process's share.
func TestReceipt_Settle_share(t *testing.T) {
	for processes, want := range map[int]int64{1: 300 - 2*100, 4: 300 - 2*25} {
		store := newRemote()
		store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
		l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		divided := onError(t, "input", 100, limiter.OnErrorLocal, processes)
		d, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{{Subject: user, Limit: divided, Cost: 10}})
		if err != nil || !d.Allowed || d.Reason == limiter.ReasonNone {
			t.Fatalf("got %+v, error %v, want a degraded admission", d, err)
		}
		got := receipt.Settle(ctx, noon, func(limiter.Charge) int64 { return 300 })
		if want := (limiter.Settlement{Charged: 1, Excess: []limiter.Excess{{Subject: user, Limit: divided,
			Cost: want}}}); !reflect.DeepEqual(got, want) {
			t.Errorf("%d processes: got %+v, want %+v", processes, got, want)
		}
	}
}

// A settlement that the store does not make is reported as lost. Its charges keep their reserve.
func TestReceipt_Settle_lost(t *testing.T) {
	store := &failingRefunds{newRemote()}
	l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	charges := []limiter.Charge{{Subject: user, Limit: perMinute(t, "input", 1000), Cost: 100},
		{Subject: user, Limit: perMinute(t, "output", 1000), Cost: 100}}
	_, receipt, err := l.TakeRefundable(ctx, noon, charges)
	if err != nil {
		t.Fatal(err)
	}
	got := receipt.Settle(ctx, noon.Add(time.Second), func(c limiter.Charge) int64 { return c.Cost + 5 })
	if want := (limiter.Settlement{Lost: 2}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if d, err := l.Peek(ctx, noon, charges[:1]); err != nil || d.Remaining != 900 {
		t.Errorf("got %d remaining, %v; want 900", d.Remaining, err)
	}
}

// A limit whose Count is not requests must have no Spread. An unknown Count is an error.
func TestNewLimit_count(t *testing.T) {
	rate := algo.Rate{Requests: 100, Window: time.Minute}
	for _, l := range []limiter.Limit{
		{Name: "a", Rate: rate, Count: limiter.Count{Of: "tokens"}},
		{Name: "a", Rate: rate, Count: limiter.Count{Of: limiter.CountCost}, Spread: limiter.Spread{Lease: 2}},
		{Name: "a", Rate: rate, Count: limiter.Count{Of: limiter.CountFailures}, Spread: limiter.Spread{Shards: 2}},
		{Name: "a", Rate: rate, Count: limiter.Count{Of: limiter.CountBytes}, Spread: limiter.Spread{Sync: time.Second}},
	} {
		if _, err := limiter.NewLimit(l); err == nil {
			t.Errorf("count %q with %+v: got no error, want one", l.Count.Of, l.Spread)
		}
	}
	var some limiter.Statuses
	some.Add(401)
	some.Add(599)
	for _, c := range []struct {
		of     limiter.Statuses
		status int
		want   bool
	}{{limiter.Statuses{}, 399, false}, {limiter.Statuses{}, 400, true}, {limiter.Statuses{}, 599, true}, {some, 401, true},
		{some, 402, false}, {some, 599, true}, {some, 0, false}, {some, 999, false}} {
		if got := c.of.Has(c.status); got != c.want {
			t.Errorf("status %d in %v: got %t, want %t", c.status, c.of, got, c.want)
		}
	}
}

// If a limit with Mark would have denied the request, the Receipt has the charges on all other limits.
func TestReceipt_Settle_mark(t *testing.T) {
	marked := limit(t, limiter.Limit{Name: "marked", Rate: algo.Rate{Requests: 1, Window: time.Minute}, Mark: true})
	all := perMinute(t, "all", 100)
	charges := []limiter.Charge{{Subject: user, Limit: marked, Cost: 1}, {Subject: limiter.Global(), Limit: all, Cost: 10}}
	for name, store := range map[string]limiter.Store{"memory": storetest.Must(memstore.New(memstore.Options{})), "shared": newRemote()} {
		l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		for i, used := range []int64{3, 6} { // the second request exceeds the limit with Mark
			d, receipt, err := l.TakeRefundable(ctx, noon, charges)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			receipt.Settle(ctx, noon, func(c limiter.Charge) int64 {
				if c.Limit == all {
					return 3
				}
				return c.Cost
			})
			if d, err := l.Peek(ctx, noon, []limiter.Charge{{Subject: limiter.Global(), Limit: all}}); err != nil || d.Remaining != 100-used {
				t.Errorf("%s, request %d: got %d remaining, %v; want %d", name, i+1, d.Remaining, err, 100-used)
			}
		}
	}
}

// A lease gets a refund back while the process can use it. Later, a window in the store gets it back, and the refund of
// a bucket is reported as dropped. A higher cost is charged to the store.
func TestReceipt_Settle_leased(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm   algo.Algorithm
		after       time.Duration
		actual      int64
		want        limiter.Settlement
		calls, used int64
	}{
		"soon":         {algo.FixedWindow, 0, 1, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}}, 0, 15},
		"late":         {algo.FixedWindow, 2 * time.Second, 1, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}}, 1, 14},
		"late bucket":  {algo.TokenBucket, 2 * time.Second, 0, limiter.Settlement{Refunds: limiter.Refunds{Dropped: 1}}, 0, 15},
		"unchanged":    {algo.FixedWindow, 2 * time.Second, 2, limiter.Settlement{}, 0, 15},
		"more":         {algo.FixedWindow, 0, 7, limiter.Settlement{Charged: 1}, 1, 20},
		"more, bucket": {algo.TokenBucket, 2 * time.Second, 7, limiter.Settlement{Charged: 1}, 1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			store := newRemote()
			l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
			charge := limiter.Charge{Subject: user, Cost: 1,
				Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: c.algorithm, Requests: 10_000, Window: 24 * time.Hour},
					Spread: limiter.Spread{Lease: 8}})}
			for range 7 { // leases of 1, 2 and 4
				take(t, l, charge)
			}
			charge.Cost = 2 // this request takes a lease of 8
			_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{charge})
			if err != nil {
				t.Fatal(err)
			}
			got := receipt.Settle(ctx, noon.Add(c.after), func(limiter.Charge) int64 { return c.actual })
			if used := usedOf(t, store, charge); !reflect.DeepEqual(got, c.want) || store.refunds.Load() != c.calls || used != c.used {
				t.Errorf("got %+v, %d calls and a count of %d, want %+v, %d and %d", got, store.refunds.Load(), used, c.want, c.calls, c.used)
			}
		})
	}
}

// A process has no room for the tracker of a lease any more. A receipt can no longer return quota to that lease, so the
// store gets the quota back.
func TestReceipt_Refund_evictedLease(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Subjects: 2}))
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t,
		limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: 24 * time.Hour}, Spread: limiter.Spread{Lease: 8}})}
	_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	theirs := charge
	theirs.Subject = other
	take(t, l, theirs)
	if got, used := receipt.Refund(ctx, noon), usedOf(t, store, charge); got.Given != 1 || used != 0 {
		t.Errorf("got %+v and a count of %d, want one refund and 0", got, used)
	}
}

// If the clock is set back between a charge and its settlement, the settlement refunds at most the
// charge.
func TestReceipt_Settle_clockBack(t *testing.T) {
	bucket := limit(t, limiter.Limit{Name: "bucket", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute}})
	charge := limiter.Charge{Subject: user, Limit: bucket, Cost: 20}
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	takeAt(t, l, noon, charge)
	receipt.Settle(ctx, noon.Add(-30*time.Second), func(limiter.Charge) int64 { return 0 })
	if remaining := mustPeek(t, l, noon, charge).Remaining; remaining != 39 {
		t.Errorf("got %d remaining, want 39: the 40 after the second charge alone, less the margin of the store", remaining)
	}
}

// usedOf returns the count of a charge's limit at noon.
func usedOf(t *testing.T, store limiter.Store, c limiter.Charge) int64 {
	t.Helper()
	c.Cost = 0
	results := make([]algo.Result, 1)
	if _, err := store.Take(ctx, algo.InstantOf(noon), c.Subject, []limiter.Charge{c}, results); err != nil {
		t.Fatal(err)
	}
	return results[0].Machine.Used(results[0].State, algo.InstantOf(noon))
}
