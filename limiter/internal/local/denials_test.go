package local

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// One caller takes and releases slots of a limit around a multiple of 64 slots. Each subject counts with the weight of
// its present slots, so the cache keeps the states of the other callers.
func TestDenials_Release(t *testing.T) {
	const others, requests = 400, 12_000
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	slots := Limit{ID: 1, Machine: &algo.Slots{Length: time.Hour, Requests: 390}}
	window := Limit{ID: 2, Machine: &algo.Window{Length: time.Hour, Requests: 1}}
	d := NewDenials(1000, time.Second, func(int) int { return 0 })
	record := func(subject string, c Charge, s algo.State) algo.Result {
		r := []algo.Result{{Machine: c.Machine, State: s}}
		d.Record(now, subject, []Charge{c}, r, true)
		return r[0]
	}
	spent, _ := window.Machine.Take(algo.State{}, now, 1)
	for i := range others {
		record("other"+strconv.Itoa(i), Charge{Limit: window, Cost: 1}, spent)
	}
	held, _ := slots.Machine.Take(algo.State{}, now, 63)
	for i := range requests {
		at := now.Add(time.Duration(i) * time.Millisecond)
		next, _ := slots.Machine.Take(held, at, 1)
		charged := record("busy", Charge{Limit: slots, Cost: 1}, next)
		d.Release("busy", slots.ID, 1, charged)
		held = d.Last("busy", slots.ID).State
		if i%200 == 0 {
			record("visitor"+strconv.Itoa(i), Charge{Limit: window, Cost: 1}, spent)
		}
	}
	for i := range others {
		if d.Last("other"+strconv.Itoa(i), window.ID).Machine == nil {
			t.Fatalf("after %d requests of one caller: got no state of caller %d, want the states of all %d", requests, i, others)
		}
	}
}

// A caller always has a settlement in flight, and the store refunds as much as it charges. The cached state follows the
// store.
func TestDenials_Charge(t *testing.T) {
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	c := Charge{Limit: Limit{ID: 1, Machine: &algo.Window{Length: 24 * time.Hour, Requests: 1_000_000}}, Cost: 10}
	d := NewDenials(1000, time.Second, func(int) int { return 0 })
	used, _ := c.Machine.Take(algo.State{}, now, 1000)
	record := func() { d.Record(now, "a", []Charge{c}, []algo.Result{{Machine: c.Machine, State: used}}, true) }
	record()
	d.BeginCharge(now, "a", c.ID)
	for range 10_000 {
		d.BeginCharge(now, "a", c.ID)
		record()
		d.Charge(now, "a", c.ID, 10)
		now = now.Add(10 * time.Millisecond)
	}
	// In a second, there are 100 charges and 100 settlements of 10 each.
	if got := d.Last("a", c.ID).State.Count; got < 1000 || got > 1000+101*20 {
		t.Errorf("got a usage of %d, want 1000, and at most what a second adds", got)
	}
}
