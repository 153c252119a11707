package rules_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A limit with notify writes notices at percentages of the number that applies to the caller. It never has a Spread,
// and weir check shows the percentages.
func TestParse_notify(t *testing.T) {
	r := storetest.Must(rules.Parse(storetest.Must(os.ReadFile("testdata/good/notify.json")), rules.Options{LeaseAbove: 1}))
	var notices []limiter.Notice
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{
		Notify: func(_ context.Context, n limiter.Notice) error { notices = append(notices, n); return nil },
	}))
	for user, want := range map[string]int64{"bob": 8, "alice": 16} { // an override gives alice 20
		notices = nil
		for range want {
			charges := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: user, Tier: "paid"})
			for _, c := range charges {
				if c.Limit.Spread != (limiter.Spread{}) || c.Limit.Notify == (limiter.Percentages{}) {
					t.Fatalf("limit %s: got %+v and notices at %s, want no spread and notices", c.Limit.Name, c.Limit.Spread, c.Limit.Notify)
				}
			}
			if d, err := l.Take(t.Context(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), charges); err != nil || !d.Allowed {
				t.Fatalf("got %+v, error %v, want a request within the limit", d, err)
			}
		}
		if len(notices) != 1 || notices[0].Percent != 80 || notices[0].Used != want || notices[0].Capacity != want*10/8 ||
			notices[0].Subject != limiter.User(user) {
			t.Errorf("%s: got notices %+v, want one of 80 %% at %d", user, notices, want)
		}
	}
}
