package limiter_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
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

// voucher makes the charges at noon and returns their voucher, which expires a minute later.
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

// Another process settles a voucher as Receipt.Settle does: with one call for each subject, and only
// once.
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

// A receipt returns one voucher, and then settles nothing. After an error about the expiry, the receipt
// is still usable.
func TestReceipt_Voucher_mistakes(t *testing.T) {
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 10), Cost: 1}})
	if err != nil {
		t.Fatal(err)
	}
	id := limiter.NewVoucherID()
	for _, life := range []time.Duration{-time.Second, 0, limiter.MaxVoucherLife + 1} {
		if v, err := receipt.Voucher(id, noon.Add(life)); err == nil {
			t.Errorf("a life of %s: got %+v, want an error", life, v)
		}
	}
	v, err := receipt.Voucher(id, noon.Add(limiter.MaxVoucherLife))
	if err != nil || v.ID != id || !v.At.Equal(noon) || !v.Expires.Equal(noon.Add(limiter.MaxVoucherLife)) || len(v.Charges()) != 1 {
		t.Errorf("got %+v, %v; want a voucher with a charge", v, err)
	}
	if v, err := receipt.Voucher(id, noon.Add(time.Minute)); err == nil {
		t.Errorf("a second voucher: got %+v, want an error", v)
	}
	if v, err := (*limiter.Receipt)(nil).Voucher(id, noon.Add(time.Minute)); err == nil {
		t.Errorf("a voucher without a receipt: got %+v, want an error", v)
	}
	_, many, err := l.TakeRefundable(ctx, noon, chargesOf(17, perMinute(t, "a", 10)))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := many.Voucher(id, noon.Add(time.Minute)); err == nil {
		t.Errorf("a voucher of 17 subjects: got %+v, want an error", v)
	}
}

func chargesOf(n int, l *limiter.Limit) (charges []limiter.Charge) {
	for i := range n {
		charges = append(charges, limiter.Charge{Subject: limiter.User(strconv.Itoa(i)), Limit: l, Cost: 1})
	}
	return charges
}

// At its expiry and later, a voucher settles nothing.
func TestLimiter_SettleVoucher_expired(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 100), Cost: 10}
	v := voucher(t, l, []limiter.Charge{charge})
	free := func(limiter.Charge) int64 { return 0 }
	if got, err := l.SettleVoucher(ctx, v.Expires, v, free); !errors.Is(err, limiter.ErrVoucherExpired) || !reflect.DeepEqual(got, limiter.Settlement{}) || store.refunds.Load() != 0 {
		t.Errorf("at the expiry: got %+v, %v and %d store calls, want %v and none", got, err, store.refunds.Load(), limiter.ErrVoucherExpired)
	}
	if got, err := l.SettleVoucher(ctx, v.Expires.Add(-1), v, free); err != nil || got.Refunds.Given != 1 {
		t.Errorf("before the expiry: got %+v, %v; want a refund", got, err)
	}
}

// If the settlement of one subject fails, the other subjects are settled. The settlement can be repeated.
func TestLimiter_SettleVoucher_partly(t *testing.T) {
	store := &failingSettlements{remote: newRemote()}
	l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	limits := perMinute(t, "a", 100)
	charges := []limiter.Charge{{Subject: user, Limit: limits, Cost: 10}, {Subject: other, Limit: limits, Cost: 10}}
	v := voucher(t, l, charges)
	for i, step := range []struct {
		fails limiter.Subject
		want  limiter.Settlement
		err   error
		used  []int64
	}{
		{other, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}, Lost: 1}, errFailing, []int64{2, 10}},
		{limiter.Subject{}, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}}, nil, []int64{2, 2}},
		{limiter.Subject{}, limiter.Settlement{}, limiter.ErrVoucherUsed, []int64{2, 2}},
		{other, limiter.Settlement{Lost: 1}, errFailing, []int64{2, 2}},
	} {
		store.fails = step.fails
		got, err := l.SettleVoucher(ctx, noon, v, func(limiter.Charge) int64 { return 2 })
		if !reflect.DeepEqual(got, step.want) || !errors.Is(err, step.err) || errors.Is(err, limiter.ErrVoucherUsed) != errors.Is(step.err, limiter.ErrVoucherUsed) {
			t.Errorf("settlement %d: got %+v, %v; want %+v, %v", i+1, got, err, step.want, step.err)
		}
		for j, want := range step.used {
			if used := usedOf(t, store, charges[j]); used != want {
				t.Errorf("settlement %d, subject %d: got a count of %d, want %d", i+1, j, used, want)
			}
		}
	}
}

var errFailing = errors.New("failing")

// failingSettlements makes no settlement of a chosen subject.
type failingSettlements struct {
	*remote
	fails limiter.Subject
}

func (f *failingSettlements) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (limiter.Settled, error) {
	if s == f.fails {
		return limiter.Settled{}, errFailing
	}
	return f.remote.Settle(ctx, now, s, charges, results, elapsed, once)
}

// Two clocks measure the time since the charge. Therefore, the refund of a used bucket also leaves out what leaks in
// algo.MaxSkew. A clock of the settlement that is behind changes nothing.
func TestLimiter_SettleVoucher_elapsed(t *testing.T) {
	bucket := limit(t, limiter.Limit{Name: "bucket", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute}})
	charge := limiter.Charge{Subject: user, Limit: bucket, Cost: 20}
	for _, c := range []struct {
		elapsed time.Duration
		want    int64 // count after 40 requests at noon
	}{
		{-3 * time.Second, 31}, {0, 31}, {2 * time.Second, 33}, {9 * time.Second, 40}, {10 * time.Second, 40},
	} {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		v := voucher(t, l, []limiter.Charge{charge})
		takeAt(t, l, noon, charge)
		if _, err := l.SettleVoucher(ctx, noon.Add(c.elapsed), v, func(limiter.Charge) int64 { return 5 }); err != nil {
			t.Fatal(err)
		}
		if remaining := mustPeek(t, l, noon, charge).Remaining; 60-remaining != c.want {
			t.Errorf("after %s: got a count of %d, want %d", c.elapsed, 60-remaining, c.want)
		}
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

// The store refunds a request that a lease of a window served. Other local charges stay: those of a
// leased bucket, a counter, or an outage.
func TestReceipt_Voucher_local(t *testing.T) {
	window := algo.Rate{Requests: 1000, Window: time.Minute}
	for name, c := range map[string]struct {
		limit   limiter.Limit
		charges int
		outage  bool
	}{
		"leased window":  {limiter.Limit{Rate: window, Spread: limiter.Spread{Lease: 50}}, 1, false},
		"leased bucket":  {limiter.Limit{Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Minute}, Spread: limiter.Spread{Lease: 50}}, 0, false},
		"synchronized":   {limiter.Limit{Rate: window, Spread: limiter.Spread{Sync: time.Second}}, 0, false},
		"outage":         {limiter.Limit{Rate: window}, 0, true},
		"shards":         {limiter.Limit{Rate: window, Spread: limiter.Spread{Shards: 2}}, 1, false},
		"shadow":         {limiter.Limit{Rate: window, Shadow: true}, 1, false},
		"neither of all": {limiter.Limit{Rate: window}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.limit.Name = "a"
			store := newRemote()
			l := environments(1, store)[0]
			charge := limiter.Charge{Subject: user, Limit: limit(t, c.limit), Cost: 1}
			for range 5 { // leases and counters serve the fifth request, if they serve any
				takeAt(t, l, noon, charge)
			}
			if c.outage {
				store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
			}
			v := voucher(t, l, []limiter.Charge{charge})
			store.fail = nil
			before := countOf(t, store)
			got, err := l.SettleVoucher(ctx, noon, v, func(limiter.Charge) int64 { return 0 })
			if err != nil || len(v.Charges()) != c.charges || got.Refunds.Given != c.charges {
				t.Errorf("got %d charges and %+v, %v; want %d charges and refunds", len(v.Charges()), got, err, c.charges)
			}
			if after := countOf(t, store); before-after != int64(c.charges) {
				t.Errorf("got a count of %d after %d, want %d less", after, before, c.charges)
			}
		})
	}
}

// countOf returns the sum of the counts of user in all its forms.
func countOf(t *testing.T, store limiter.Store) (n int64) {
	t.Helper()
	whole := perMinute(t, "a", 10)
	shadow, shards := *whole, *whole
	shadow.Shadow, shards.Spread.Shards = true, 2
	for _, l := range []*limiter.Limit{whole, &shadow, &shards} {
		for _, subject := range l.Subjects(user) {
			entries, err := store.Inspect(ctx, subject)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				n += e.Machine.Used(e.State, algo.InstantOf(noon))
			}
		}
	}
	return n
}

// The voucher of a request that renewed a lease refunds only this request, not the lease.
func TestReceipt_Voucher_renewal(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Minute}, Spread: limiter.Spread{Lease: 50}}), Cost: 1}
	takeAt(t, l, noon, charge)
	v := voucher(t, l, []limiter.Charge{charge}) // the second request takes a lease of 2
	if used := countOf(t, store); used != 3 {
		t.Fatalf("got a count of %d, want 3", used)
	}
	if _, err := l.SettleVoucher(ctx, noon, v, func(limiter.Charge) int64 { return 0 }); err != nil || countOf(t, store) != 2 {
		t.Errorf("got a count of %d, %v; want 2", countOf(t, store), err)
	}
}

// A cost below 0 counts as 0. After the settlement, the denial cache of this process does not deny by the
// old state.
func TestLimiter_SettleVoucher_negative(t *testing.T) {
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	charge := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 15), Cost: 10}
	takeAt(t, l, noon, limiter.Charge{Subject: user, Limit: charge.Limit, Cost: 5})
	v := voucher(t, l, []limiter.Charge{charge})
	if d := takeAt(t, l, noon, charge); d.Allowed {
		t.Fatalf("got %+v, want a denial", d)
	}
	if got, err := l.SettleVoucher(ctx, noon, v, func(limiter.Charge) int64 { return -100 }); err != nil || got.Refunds.Given != 1 {
		t.Fatalf("got %+v, %v; want a refund", got, err)
	}
	if d := takeAt(t, l, noon, charge); !d.Allowed || d.Remaining != 0 {
		t.Errorf("got allowed %t with %d remaining, want true with 0", d.Allowed, d.Remaining)
	}
}

// full is a store that makes no settlement with an ID, such as one without room for IDs.
type full struct {
	limiter.Store
	err error
}

func (f full) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (limiter.Settled, error) {
	if once.Needed() {
		return limiter.Settled{}, f.err
	}
	return f.Store.Settle(ctx, now, s, charges, results, elapsed, once)
}

// If the store has no room for the ID of a settlement, the settlement still releases slots and charges costs above the
// reserve. Costs below the reserve keep it. If another message makes the settlement, only the slots are released.
func TestLimiter_SettleVoucher_full(t *testing.T) {
	counting := func(name string, of limiter.Counted) *limiter.Limit {
		return limit(t, limiter.Limit{Name: name, Rate: perMinute(t, "a", 1000).Rate, Count: limiter.Count{Of: of}})
	}
	exports := limiter.Charge{Subject: user, Limit: concurrent(t, 2), Cost: 1}
	failures := limiter.Charge{Subject: user, Limit: counting("failures", limiter.CountFailures), Cost: 1}
	tokens := limiter.Charge{Subject: user, Limit: counting("tokens", limiter.CountCost), Cost: 10}
	for _, c := range []struct {
		charges []limiter.Charge
		want    limiter.Settlement
		err     error
	}{
		{[]limiter.Charge{exports}, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}}, nil},
		{[]limiter.Charge{failures}, limiter.Settlement{}, limiter.ErrVoucherExpired},
		{[]limiter.Charge{tokens}, limiter.Settlement{Charged: 1}, nil},
		{[]limiter.Charge{exports, failures, tokens}, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}, Charged: 1}, limiter.ErrVoucherExpired},
		{[]limiter.Charge{exports, tokens}, limiter.Settlement{Refunds: limiter.Refunds{Given: 1}, Lost: 1}, limiter.ErrVoucherBegun},
	} {
		store, refusal := newRemote(), limiter.ErrVoucherExpired
		if c.err != nil {
			refusal = c.err
		}
		l := storetest.Must(limiter.New(full{store, refusal}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		v := voucher(t, l, c.charges)
		got, err := l.SettleVoucher(ctx, noon, v, costOf(map[string]int64{exports.Limit.Name: 0, "failures": 0, "tokens": 250}))
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("settlement of %d charges: got %+v and %v, want %+v and %v", len(c.charges), got, err, c.want, c.err)
		}
		for _, charge := range c.charges {
			want := map[string]int64{exports.Limit.Name: 0, "failures": 1, "tokens": 10 + 240*int64(c.want.Charged)}[charge.Limit.Name]
			if n := used(t, store, noon, charge); n != want {
				t.Errorf("%s: got a count of %d, want %d", charge.Limit.Name, n, want)
			}
		}
	}
}

// A message that arrives again releases no slot, and counts none as dropped.
func TestLimiter_SettleVoucher_slotsAgain(t *testing.T) {
	charges := []limiter.Charge{{Subject: user, Limit: concurrent(t, 2), Cost: 1}, {Subject: user, Limit: perMinute(t, "tokens", 1000), Cost: 10}}
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	v := voucher(t, l, charges)
	free := func(limiter.Charge) int64 { return 0 }
	if got, err := l.SettleVoucher(ctx, noon, v, free); err != nil || !reflect.DeepEqual(got, limiter.Settlement{Refunds: limiter.Refunds{Given: 2}}) {
		t.Fatalf("first message: got %+v, error %v, want both refunds", got, err)
	}
	if got, err := l.SettleVoucher(ctx, noon, v, free); !errors.Is(err, limiter.ErrVoucherUsed) || !reflect.DeepEqual(got, limiter.Settlement{}) {
		t.Errorf("second message: got %+v, error %v, want nothing and %v", got, err, limiter.ErrVoucherUsed)
	}
}
