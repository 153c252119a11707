package local

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

func window(tb testing.TB) Limit {
	tb.Helper()
	m, err := algo.New(algo.Rate{Requests: 10, Window: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	return Limit{Machine: m}
}

// While Take and Raise call seen, Holds must wait for their lock. Otherwise it could report that nothing
// is held.
func TestFallback_Holds_waits(t *testing.T) {
	f, limit := NewFallback(10), window(t)
	held := false
	f.Take(0, "user", []Charge{{Limit: limit, Cost: 1}}, make([]algo.Result, 1), func() { held = f.subjects.Load() > 0 })
	if !held {
		t.Error("Holds during Take: got a result at once, want it to wait for the lock")
	}
	f.Reset("user")
	f.Raise(0, "user", limit, func() (algo.State, bool) {
		held = f.subjects.Load() > 0
		return algo.State{}, false
	})
	if !held {
		t.Error("Holds during Raise: got a result at once, want it to wait for the lock")
	}
	if f.subjects.Load() != 0 {
		t.Errorf("got %d subjects held, want none", f.subjects.Load())
	}
}

// 50,000 subjects of one limit use the memory that DefaultFallbackSize states.
func TestFallback_memory(t *testing.T) {
	const subjects = 50_000
	f, charges := NewFallback(subjects), []Charge{{Limit: window(t), Cost: 1}}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range subjects {
		if taken, room := f.Take(0, fmt.Sprintf("weir:v1:user:%030d", i), charges, make([]algo.Result, 1), func() {}); !taken || !room {
			t.Fatalf("subject %d: got taken %t and room %t, want true and true", i, taken, room)
		}
	}
	mb := float64(heap()-before) / 1e6
	runtime.KeepAlive(f)
	t.Logf("%.1f MB", mb)
	if mb < 5 || mb > 25 {
		t.Errorf("got %.1f MB for %d subjects, want 5 to 25: correct DefaultFallbackSize's comment", mb, subjects)
	}
}
