package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/health"
	"github.com/weir-limits/weir/limiter/internal/table"
	"github.com/weir-limits/weir/limiter/internal/wire"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A spare for which the store has no room costs a second call, and no refusal. A group has no spare of its own, and waits for
// its state instead.
func TestWire_spare(t *testing.T) {
	limit := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour})
	for _, c := range []struct {
		cost    int64
		group   bool
		verdict chain.Verdict
		calls   int
		charged int64
	}{{8, false, chain.Admitted, 1, 8}, {12, false, chain.Admitted, 2, 1}, {12, true, chain.Refused, 1, 0}} {
		store := storetest.Must(memstore.New(memstore.Options{}))
		w := wire.Wire{Store: store, Process: &chain.Process{Health: &health.Health{},
			Cache: &table.Cache{Table: table.New(10), TTL: time.Second}}}
		r := chain.NewRequest(context.Background(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), false, &chain.Timeouts{})
		a := chain.Ask{Request: &r, Subject: limiter.User("alice"), Group: c.group}
		a.Add(chain.Line{Limit: limit, Want: 1}, limiter.Charge{Subject: a.Subject, Limit: limit, Cost: c.cost}, algo.Result{})
		w.Take(&a)
		if a.Verdict != c.verdict || a.Calls != c.calls || a.Results[0].State.Count != c.charged {
			t.Errorf("cost %d, group %t: got verdict %d after %d calls and a count of %d, want %d after %d and %d", c.cost, c.group, a.Verdict,
				a.Calls, a.Results[0].State.Count, c.verdict, c.calls, c.charged)
		}
	}
}

// After its deadline, an ask makes no call. As long as the store works, its subject is busy, and this is no outage.
func TestWire_late(t *testing.T) {
	limit := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Hour})
	w := wire.Wire{Store: storetest.Must(memstore.New(memstore.Options{})), Process: &chain.Process{Health: &health.Health{},
		Cache: &table.Cache{Table: table.New(10)}}}
	r := chain.NewRequest(context.Background(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), false, &chain.Timeouts{Usual: 1})
	defer r.End()
	a := chain.Ask{Request: &r, Subject: limiter.User("alice")}
	a.Add(chain.Line{Limit: limit, Want: 1}, limiter.Charge{Subject: a.Subject, Limit: limit, Cost: 1}, algo.Result{})
	w.Take(&a)
	if a.Verdict != chain.Busy || a.Calls != 0 {
		t.Errorf("got verdict %d and error %v after %d calls, want a busy subject and none", a.Verdict, a.Err, a.Calls)
	}
}
