package operator_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/operator"
)

// Own returns the limits that the usage endpoint shows, with the debt of the caller.
func TestOwn(t *testing.T) {
	d := newDesk(t, "memory")
	d.rules = parse(t, `{"rules":[{"endpoint":"/chat","method":"POST","limits":{
		"paid":{"name":"none","requests":1,"window":"1m"},
		"*":[{"name":"input","requests":100,"window":"1m","count":"cost","reserve":20},{"name":"full","requests":5,"window":"1m","mode":"mark"},{"name":"day","requests":9,"period":"day"}]}}]}`)
	charges := d.rules.Charges(nil, "POST", rules.EncodedPath("/chat"), caller.Caller{User: "alice"})
	_, receipt, err := d.Limiters[0].TakeRefundable(t.Context(), d.now, charges)
	if err != nil {
		t.Fatal(err)
	}
	receipt.Settle(t.Context(), d.now, func(c limiter.Charge) int64 {
		if c.Limit.Count.Of == limiter.CountCost {
			return 150
		}
		return c.Cost
	})
	got, err := d.Own(t.Context(), operator.Question{User: "alice", Tier: "free"})
	reset := d.now.Unix() + 120 // when the window after the present one ends
	if want := []httplimit.LimitUsage{
		{Name: "input", Endpoint: "/chat", Method: "POST", Limit: 100, Window: "60s", Count: "cost", Capacity: 100, Used: 150, Reset: reset},
		{Name: "full", Endpoint: "/chat", Method: "POST", Limit: 5, Window: "60s", Mode: "mark", Capacity: 5, Used: 1, Remaining: 4, Reset: d.now.Unix() + 60}, // a small window keeps instants
		{Name: "day", Endpoint: "/chat", Method: "POST", Limit: 9, Window: "86400s", Period: "day", Capacity: 9, Used: 1, Remaining: 8, Reset: d.now.Truncate(24*time.Hour).Unix() + 86400},
	}; err != nil || got.Subject != "user:alice" || got.Tier != "free" || got.Truncated || !slices.Equal(got.Limits, want) {
		t.Errorf("got %+v, error %v, want the limits %+v", got, err, want)
	}
	if limits := d.inspect("user:alice").Limits; len(limits) == 0 || !slices.ContainsFunc(limits, func(l operator.Limit) bool { return l.Name == "input" && l.State.Debt == 50 }) {
		t.Errorf("usage: got %+v, want a debt of 50", limits)
	}
	_, err = d.Own(t.Context(), operator.Question{})
	if _, mistaken := errors.AsType[*operator.MistakeError](err); !mistaken {
		t.Errorf("anonymous: got error %v, want a mistake", err)
	}
}
