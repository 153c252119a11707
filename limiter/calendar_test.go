package limiter_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A monthly quota makes the same decisions with and without a lease. The test
// covers the denial cache, an outage, and the end of the period, 28 February 2026.
func TestCalendar(t *testing.T) {
	rate := algo.Rate{Requests: 10, Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin", Anchor: "31"}}
	end := time.Date(2026, 2, 27, 23, 0, 0, 0, time.UTC) // 28 February in Berlin
	now := end.Add(-time.Hour)
	for name, spread := range map[string]limiter.Spread{"none": {}, "lease": {Lease: 5}} {
		t.Run(name, func(t *testing.T) {
			r := newRemote()
			l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
			c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "month", Rate: rate, Spread: spread})}
			if got := c.Limit.WindowAt(now); got != 28*24*time.Hour {
				t.Errorf("window: got %s, want 28 days", got)
			}
			for i := range 12 {
				r.fail = nil
				if i >= 4 && i < 6 {
					r.fail = map[limiter.Subject]error{user: errHangs}
				}
				d := takeAt(t, l, now.Add(time.Duration(i)*300*time.Millisecond), c)
				if d.Allowed != (i < 10) {
					t.Errorf("request %d: got %+v, want the first ten allowed", i, d)
				}
				if d.Allowed && d.ResetAfter != end.Sub(d.At) || !d.Allowed && d.RetryAfter != end.Sub(d.At) {
					t.Errorf("request %d: got %+v, want a reset in %s", i, d, end.Sub(d.At))
				}
			}
			if d := takeAt(t, l, end.Add(-1), c); d.Allowed {
				t.Errorf("1 ns before the end: got %+v, want a refusal", d)
			}
			if d := takeAt(t, l, end, c); !d.Allowed || d.Remaining < 9 || c.Limit.WindowAt(end) != 31*24*time.Hour-time.Hour {
				t.Errorf("at the end: got %+v and a window of %s, want a whole quota and 31 days less an hour", d, c.Limit.WindowAt(end))
			}
		})
	}
}
