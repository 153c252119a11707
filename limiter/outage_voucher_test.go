package limiter_test

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// takeVoucher makes a request whose charge another process settles; nil if the request is denied.
func takeVoucher(t *testing.T, l *limiter.Limiter, now time.Time, c limiter.Charge) *limiter.Voucher {
	t.Helper()
	d, receipt, err := l.TakeRefundable(ctx, now, []limiter.Charge{c})
	if err != nil || !d.Allowed {
		return nil
	}
	v, err := receipt.Voucher(limiter.NewVoucherID(), now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// After one call without an answer, another process settles all receipts of this process. The counts of the outage
// refuse no request, because this process no longer counts charges that the other process settles.
func TestOutage_voucher(t *testing.T) {
	for name, limited := range map[string]limiter.Limit{
		"failures":         {Rate: algo.Rate{Requests: 100, Window: time.Hour, Algorithm: algo.FixedWindow}, Count: limiter.Count{Of: limiter.CountFailures}},
		"failures, log":    {Rate: algo.Rate{Requests: 100, Window: time.Hour, Algorithm: algo.SlidingLog}, Count: limiter.Count{Of: limiter.CountFailures}},
		"failures, bucket": {Rate: algo.Rate{Requests: 100, Window: time.Hour, Algorithm: algo.TokenBucket}, Count: limiter.Count{Of: limiter.CountFailures}},
		"concurrent":       {Rate: algo.Rate{Requests: 5, Window: 10 * time.Minute}, Count: limiter.Count{Of: limiter.CountConcurrent}},
		"concurrent, part": {Rate: algo.Rate{Requests: 10, Window: 10 * time.Minute}, Count: limiter.Count{Of: limiter.CountConcurrent}, LocalProcesses: 2},
	} {
		limited.Name = "a"
		store := newOutage()
		l, settler, c := quiet(store), quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limited)}
		refused := 0
		for i := range 1000 {
			now := noon.Add(time.Duration(i) * time.Second)
			store.fails(i == 3)
			v := takeVoucher(t, l, now, c)
			if v == nil {
				refused++
			} else if i != 3 {
				if _, err := settler.SettleVoucher(ctx, now, v, actually(0)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if refused != 0 {
			t.Errorf("%s: got %d of 1000 requests refused, want 0", name, refused)
		}
	}
}

// No process settles the receipts. Their charges stay in the store, which enforces the limit.
func TestOutage_voucherUnsettled(t *testing.T) {
	store := newOutage()
	l, c := quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, algo.Rate{Algorithm: algo.FixedWindow})}
	store.fails(true)
	during := takeVoucher(t, l, noon, c)
	store.fails(false)
	admitted := 0
	for range 200 {
		if takeVoucher(t, l, noon, c) != nil {
			admitted++
		}
	}
	if during == nil || admitted != 100 {
		t.Errorf("got %d admitted by the store, want 100", admitted)
	}
	store.fails(true)
	if n := admissions(t, l, 10, noon, c); n != 0 {
		t.Errorf("got %d admitted in the next outage, want 0", n)
	}
}

// The store loses its counts and the IDs of settlements. A message that arrives after the loss, or again after it, changes
// the new counts by its difference.
func TestSettleVoucher_loses(t *testing.T) {
	for actual, want := range map[int64]int64{4: 14, 10: 20, 25: 35} {
		store := newOutage()
		l, c := quiet(store), limiter.Charge{Subject: user, Cost: 10, Limit: counted(t, 100, algo.Rate{Algorithm: algo.FixedWindow})}
		v := takeVoucher(t, l, noon, c)
		for range 2 {
			store.loses()
			admissions(t, l, 2, noon, c)
			_, err := l.SettleVoucher(ctx, noon, v, actually(actual))
			if n := used(t, store, noon, c); n != want || err != nil {
				t.Errorf("cost of %d: got %d counted and error %v, want %d", actual, n, err, want)
			}
		}
	}
}
