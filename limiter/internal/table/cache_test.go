package table

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

func limitOf(tb testing.TB, rate algo.Rate) *domain.Limit {
	tb.Helper()
	l, err := domain.NewLimit(domain.Limit{Name: "a", Rate: rate})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func slotsOf(tb testing.TB, requests int64, window time.Duration) *domain.Limit {
	tb.Helper()
	l, err := domain.NewLimit(domain.Limit{Name: "slots", Rate: algo.Rate{Requests: requests, Window: window},
		Count: domain.Count{Of: domain.CountConcurrent}})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// One caller takes and releases slots of a limit around a multiple of 64 slots. Each subject counts with the weight of
// its present slots, so the cache keeps the states of the other callers.
func TestCache_release(t *testing.T) {
	const others, requests = 400, 12_000
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	slots, window := slotsOf(t, 390, time.Hour), limitOf(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 1, Window: time.Hour})
	d := &Cache{New(6 * 1000), time.Second, func(int) int { return 0 }}
	record := func(subject string, c domain.Charge, s algo.State) algo.Result {
		c.Subject = domain.User(subject)
		r := []algo.Result{{Machine: c.Limit.Machine(), State: s}}
		d.Record(now, []domain.Charge{c}, r, true, func(int) domain.Charge { return c })
		return r[0]
	}
	spent, _ := window.Machine().Take(algo.State{}, now, 1)
	for i := range others {
		record("other"+strconv.Itoa(i), domain.Charge{Limit: window, Cost: 1}, spent)
	}
	held, _ := slots.Machine().Take(algo.State{}, now, 63)
	for i := range requests {
		at := now.Add(time.Duration(i) * time.Millisecond)
		next, _ := slots.Machine().Take(held, at, 1)
		charged := record("busy", domain.Charge{Limit: slots, Cost: 1}, next)
		d.Release(domain.User("busy"), slots.ID, 1, charged)
		held = d.lastOf(domain.User("busy"), slots.ID).State
		if i%200 == 0 {
			record("visitor"+strconv.Itoa(i), domain.Charge{Limit: window, Cost: 1}, spent)
		}
	}
	for i := range others {
		if d.lastOf(domain.User("other"+strconv.Itoa(i)), window.ID).Machine == nil {
			t.Fatalf("after %d requests of one caller: got no state of caller %d, want the states of all %d", requests, i, others)
		}
	}
}

// A caller always has a settlement in flight, and the store refunds as much as it charges. The cached state follows the
// store.
func TestCache_charge(t *testing.T) {
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	c, a := domain.Charge{Subject: domain.User("a"), Limit: limitOf(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 1_000_000,
		Window: 24 * time.Hour}), Cost: 10}, domain.User("a")
	d := &Cache{New(6 * 1000), time.Second, func(int) int { return 0 }}
	used, _ := c.Limit.Machine().Take(algo.State{}, now, 1000)
	record := func() {
		d.Record(now, []domain.Charge{c}, []algo.Result{{Machine: c.Limit.Machine(), State: used}}, true, func(int) domain.Charge { return c })
	}
	record()
	d.BeginCharge(now, a, c.Limit.ID)
	for range 10_000 {
		d.BeginCharge(now, a, c.Limit.ID)
		record()
		d.Charge(now, a, c.Limit.ID, 10)
		now = now.Add(10 * time.Millisecond)
	}
	// In a second, there are 100 charges and 100 settlements of 10 each.
	if got := d.lastOf(a, c.Limit.ID).State.Count; got < 1000 || got > 1000+101*20 {
		t.Errorf("got a usage of %d, want 1000, and at most what a second adds", got)
	}
}
