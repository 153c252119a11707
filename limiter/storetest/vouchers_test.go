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
	limit    limiter.Limit
	requests int
	every    time.Duration // time between two requests
	reserve  int64
	actual   int64
	delay    int // number of requests between a request and its settlement
}

func (f traffic) admitted(t *testing.T, store limiter.Store) (admitted int64) {
	t.Helper()
	var processes [2]*limiter.Limiter // one makes the requests, and the other settles them
	for i := range processes {
		processes[i] = Must(limiter.New(store, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
	}
	charge := limiter.Charge{Subject: subject(), Limit: Must(limiter.NewLimit(f.limit)), Cost: f.reserve}
	inFlight := map[int]*limiter.Voucher{}
	for i := range f.requests {
		now := start.Time().Add(time.Duration(i) * f.every)
		if v := inFlight[i-f.delay]; v != nil {
			if _, err := processes[1].SettleVoucher(ctx, now, v, func(limiter.Charge) int64 { return f.actual }); err != nil {
				t.Fatalf("settlement of request %d: got %v, want none", i-f.delay, err)
			}
			delete(inFlight, i-f.delay)
		}
		d, receipt, err := processes[0].TakeRefundable(ctx, now, []limiter.Charge{charge})
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

// testVouchers sends requests whose cost is known only after their answers, and settles them in another process.
// The sum of the actual costs is at most the limit plus the costs in flight. Requests that cost nothing are never
// refused.
func testVouchers(t *testing.T, open opener) {
	failures := limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Hour}, Count: limiter.Count{Of: limiter.CountFailures}}
	tokens := limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 200_000, Window: 24 * time.Hour}, Count: limiter.Count{Of: limiter.CountCost}}
	for name, c := range map[string]struct {
		traffic
		least, most int64
	}{
		"requests that succeed": {traffic{failures, 400, 200 * time.Millisecond, 1, 0, 5}, 400, 400},
		"everybody":             {traffic{tokens, 200, 200 * time.Millisecond, 100, 2000, 5}, 95, 105},
		"one caller":            {traffic{tokens, 600, 10 * time.Millisecond, 100, 1000, 10}, 190, 210},
	} {
		if got := c.admitted(t, open()); got < c.least || got > c.most {
			t.Errorf("%s: got %d of %d requests admitted, want %d to %d with those in flight", name, got, c.requests, c.least, c.most)
		}
	}
}
