package limiter_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// carried returns v after its way through another process.
func carried(t *testing.T, v *limiter.Voucher) *limiter.Voucher {
	t.Helper()
	data, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var next limiter.Voucher
	if err := next.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	again, err := next.MarshalBinary()
	if err != nil || string(again) != string(data) {
		t.Fatalf("the voucher changed on its way: got %x, %v; want %x", again, err, data)
	}
	return &next
}

// voucher takes charges at noon and returns their voucher, which expires a minute later.
func voucher(t *testing.T, l *limiter.Limiter, charges []limiter.Charge) *limiter.Voucher {
	t.Helper()
	d, receipt, err := l.TakeRefundable(ctx, noon, charges)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	v, err := receipt.Voucher(limiter.NewVoucherID(), noon.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got := receipt.Settle(ctx, noon, func(limiter.Charge) int64 { return 0 }); !reflect.DeepEqual(got, limiter.Settlement{}) {
		t.Fatalf("settlement of a receipt with a voucher: got %+v, want nothing", got)
	}
	return carried(t, v)
}

func costOf(costs map[string]int64) func(limiter.Charge) int64 {
	return func(c limiter.Charge) int64 {
		if n, ok := costs[c.Limit.Name]; ok {
			return n
		}
		return c.Cost
	}
}

// Another process settles a voucher like the receipt, with one call for each subject, and only once.
func TestLimiter_SettleVoucher(t *testing.T) {
	input, output := perMinute(t, "input", 1000), perMinute(t, "output", 1000)
	all := perMinute(t, "all", 5000)
	charges := []limiter.Charge{{Subject: user, Limit: input, Cost: 100}, {Subject: user, Limit: output, Cost: 200}, {Subject: limiter.Global(), Limit: all, Cost: 300}}
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	other := storetest.Must(limiter.New(store, limiter.Options{}))
	v := voucher(t, l, charges)
	if got, err := other.SettleVoucher(ctx, noon.Add(time.Second), v, costOf(nil)); err != nil || !reflect.DeepEqual(got, limiter.Settlement{}) || store.refunds.Load() != 0 {
		t.Errorf("the cost of the charge: got %+v, %v and %d store calls, want none", got, err, store.refunds.Load())
	}
	want := limiter.Settlement{Refunds: limiter.Refunds{Given: 2}, Charged: 1}
	actual := costOf(map[string]int64{"input": 10, "output": 220, "all": 230})
	if got, err := other.SettleVoucher(ctx, noon.Add(time.Second), v, actual); err != nil || !reflect.DeepEqual(got, want) || store.refunds.Load() != 2 {
		t.Errorf("got %+v, %v and %d store calls, want %+v and 2", got, err, store.refunds.Load(), want)
	}
	for range 2 {
		if got, err := other.SettleVoucher(ctx, noon.Add(time.Second), v, actual); !errors.Is(err, limiter.ErrVoucherUsed) || !reflect.DeepEqual(got, limiter.Settlement{}) {
			t.Errorf("a second settlement: got %+v, %v; want %v", got, err, limiter.ErrVoucherUsed)
		}
	}
	for i, want := range []int64{10, 220, 230} {
		if got := usedOf(t, store, charges[i]); got != want {
			t.Errorf("limit %s: got a count of %d, want %d", charges[i].Limit.Name, got, want)
		}
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
