package quota

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A counter counts at least what its process admitted, even if the store lacks these charges.
func TestCounter_sync_own(t *testing.T) {
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 59, 0, time.UTC))
	for _, algorithm := range algo.Algorithms() {
		m, err := algo.New(algo.Rate{Algorithm: algorithm, Requests: 10, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for stored, want := range map[int64]int64{0: 7, 2: 7, 9: 9} {
			c := NewCounter(CounterRules{Machine: m})
			c.own = algo.Result{Machine: m, State: m.Force(algo.State{}, now, 7)}
			c.sync(now, algo.Result{Machine: m, State: m.Force(algo.State{}, now, stored)})
			if got := m.Used(c.State, now); got != want {
				t.Errorf("%s: got a count of %d with %d in the store and 7 admitted, want %d", algorithm, got, stored, want)
			}
		}
	}
}
