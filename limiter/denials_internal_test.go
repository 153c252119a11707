package limiter

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

func limitOf(tb testing.TB, rate algo.Rate) *Limit {
	tb.Helper()
	l, err := NewLimit(Limit{Name: "a", Rate: rate})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func slotsOf(tb testing.TB, requests int64, window time.Duration) *Limit {
	tb.Helper()
	l, err := NewLimit(Limit{Name: "slots", Rate: algo.Rate{Requests: requests, Window: window}, Count: Count{Of: CountConcurrent}})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// One caller takes and releases slots of a limit around a multiple of 64 slots. Each subject counts with the weight of
// its present slots, so the cache keeps the states of the other callers.
func TestDenials_release(t *testing.T) {
	const others, requests = 400, 12_000
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	slots, window := slotsOf(t, 390, time.Hour), limitOf(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 1, Window: time.Hour})
	d := &denials{newTable(6 * 1000), time.Second, func(int) int { return 0 }}
	record := func(subject string, c Charge, s algo.State) algo.Result {
		r := []algo.Result{{Machine: c.Limit.machine, State: s}}
		d.record(now, User(subject), []Charge{c}, r, true)
		return r[0]
	}
	spent, _ := window.machine.Take(algo.State{}, now, 1)
	for i := range others {
		record("other"+strconv.Itoa(i), Charge{Limit: window, Cost: 1}, spent)
	}
	held, _ := slots.machine.Take(algo.State{}, now, 63)
	for i := range requests {
		at := now.Add(time.Duration(i) * time.Millisecond)
		next, _ := slots.machine.Take(held, at, 1)
		charged := record("busy", Charge{Limit: slots, Cost: 1}, next)
		d.release(User("busy"), slots.ID, 1, charged)
		held = d.lastOf(User("busy"), slots.ID).State
		if i%200 == 0 {
			record("visitor"+strconv.Itoa(i), Charge{Limit: window, Cost: 1}, spent)
		}
	}
	for i := range others {
		if d.lastOf(User("other"+strconv.Itoa(i)), window.ID).Machine == nil {
			t.Fatalf("after %d requests of one caller: got no state of caller %d, want the states of all %d", requests, i, others)
		}
	}
}

// A caller always has a settlement in flight, and the store refunds as much as it charges. The cached state follows the
// store.
func TestDenials_charge(t *testing.T) {
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	c, a := Charge{Limit: limitOf(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 1_000_000, Window: 24 * time.Hour}), Cost: 10}, User("a")
	d := &denials{newTable(6 * 1000), time.Second, func(int) int { return 0 }}
	used, _ := c.Limit.machine.Take(algo.State{}, now, 1000)
	record := func() {
		d.record(now, a, []Charge{c}, []algo.Result{{Machine: c.Limit.machine, State: used}}, true)
	}
	record()
	d.beginCharge(now, a, c.Limit.ID)
	for range 10_000 {
		d.beginCharge(now, a, c.Limit.ID)
		record()
		d.charge(now, a, c.Limit.ID, 10)
		now = now.Add(10 * time.Millisecond)
	}
	// In a second, there are 100 charges and 100 settlements of 10 each.
	if got := d.lastOf(a, c.Limit.ID).State.Count; got < 1000 || got > 1000+101*20 {
		t.Errorf("got a usage of %d, want 1000, and at most what a second adds", got)
	}
}
