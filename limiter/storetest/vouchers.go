package storetest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// traffic is requests of one subject at a constant rate. Another process settles each request at its actual cost.
type traffic struct {
	limit    *limiter.Limit
	requests int
	every    time.Duration // time between two requests
	reserve  int64
	actual   int64
	delay    int // number of requests between a request and its settlement
}

func (f traffic) admitted(t *testing.T, s Suite) (admitted int64) {
	t.Helper()
	store := s.Open(t)
	api, settler := newLimiter(t, store), newLimiter(t, store)
	charge := limiter.Charge{Subject: subject(), Limit: f.limit, Cost: f.reserve}
	inFlight := map[int]*limiter.Voucher{}
	for i := range f.requests {
		now := start.Time().Add(time.Duration(i) * f.every)
		if v := inFlight[i-f.delay]; v != nil {
			if _, err := settler.SettleVoucher(ctx, now, v, func(limiter.Charge) int64 { return f.actual }); err != nil {
				t.Fatalf("settlement of request %d: got %v, want none", i-f.delay, err)
			}
			delete(inFlight, i-f.delay)
		}
		d, receipt, err := api.TakeRefundable(ctx, now, []limiter.Charge{charge})
		if err != nil {
			t.Fatalf("request %d: got %v, want none", i, err)
		}
		if d.Allowed {
			admitted++
			inFlight[i] = Must(receipt.Voucher(limiter.NewVoucherID(), now.Add(15*time.Minute)))
		}
	}
	return admitted
}

func newLimiter(t *testing.T, store limiter.Store) *limiter.Limiter {
	t.Helper()
	return Must(limiter.New(store, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
}

func countedLimit(t *testing.T, of limiter.Counted, rate algo.Rate) *limiter.Limit {
	t.Helper()
	l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rate: rate, Count: limiter.Count{Of: of}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testVouchers sends requests whose cost is known only after their answers, and settles them in another process.
// The sum of the actual costs is at most the limit plus the costs in flight. Requests that cost nothing are never
// refused.
func testVouchers(t *testing.T, s Suite) {
	const million = 1_000_000
	day := algo.Rate{Algorithm: algo.FixedWindow, Requests: million, Window: 24 * time.Hour}
	t.Run("failures", func(t *testing.T) {
		f := traffic{limit: countedLimit(t, limiter.CountFailures, algo.Rate{Requests: 1000, Window: time.Hour}), requests: 9000, every: 200 * time.Millisecond, reserve: 1, delay: 5}
		if s.Slow {
			f.limit, f.requests = countedLimit(t, limiter.CountFailures, algo.Rate{Requests: 100, Window: time.Hour}), 400
		}
		if got := f.admitted(t, s); got != int64(f.requests) {
			t.Errorf("requests that succeed: got %d of %d refused, want none", int64(f.requests)-got, f.requests)
		}
	})
	for _, c := range []struct {
		name     string
		requests int
		every    time.Duration
		actual   int64
		delay    int
	}{
		{"everybody", 1000, 200 * time.Millisecond, 2000, 5},
		{"one caller", 6000, 10 * time.Millisecond, 1000, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := traffic{countedLimit(t, limiter.CountCost, day), c.requests, c.every, 100, c.actual, c.delay}
			if s.Slow {
				f.limit, f.requests = countedLimit(t, limiter.CountCost, algo.Rate{Algorithm: algo.FixedWindow, Requests: million / 5, Window: 24 * time.Hour}), c.requests/10
			}
			most := f.limit.Rate.Requests + int64(f.delay)*f.actual
			if got := f.admitted(t, s) * f.actual; got > most || got < f.limit.Rate.Requests-int64(f.delay)*f.actual {
				t.Errorf("tokens: got %d admitted of %d, want at most %d with those in flight", got, f.limit.Rate.Requests, most)
			}
		})
	}
}
