package storetest

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testRate checks that a caller that repeats each refused request after its RetryAfter gets at least 95 % of a sliding
// window, and never more than the limit. It leaves out the first window, in which the caller has the full quota.
func testRate(t *testing.T, open opener) {
	const window, windows = 10 * time.Second, 4
	l := Must(limiter.New(open(), limiter.Options{}))
	begin := start.Time().Truncate(window)
	for _, requests := range []int64{1, 2, 3, 5, algo.MaxExact, algo.MaxExact + 1, 50} {
		charges := []limiter.Charge{{Subject: subject(), Limit: Limit(t, "a", algo.Rate{Requests: requests, Window: window}), Cost: 1}}
		admitted := int64(0)
		for now := begin; now.Before(begin.Add((1 + windows) * window)); {
			d, err := l.Take(ctx, now, charges)
			switch {
			case err != nil:
				t.Fatal(err)
			case !d.Allowed && d.Reason != limiter.ReasonNone:
				t.Fatalf("got reason %s, want a decision", d.Reason)
			case !d.Allowed:
				now = now.Add(d.RetryAfter)
			case now.Sub(begin) >= window:
				admitted++
			}
		}
		if most := windows * requests; admitted > most || admitted*100 < most*95 {
			t.Errorf("%d requests: got %d admitted in %d windows, want %d to %d", requests, admitted, windows, (most*95+99)/100, most)
		}
	}
}
