package limiter_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Other environments take all quota. An environment makes three refused calls, and then about one call per CacheTTL.
// If the store refuses, RetryAfter is the exact wait. If the back-off refuses, RetryAfter is the time until the
// back-off ends.
func TestLimiter_Take_backOff(t *testing.T) {
	r := newRemote()
	draw := func(n int) int { return n - 1 } // the longest back-off
	first := storetest.Must(limiter.New(r, limiter.Options{}))
	second := storetest.Must(limiter.New(r, limiter.Options{IntN: draw}))
	charge := tenth(t)
	for i, c := range []struct {
		ms    int
		taken bool // the first environment takes the remaining quota
		calls int  // store calls by the second environment
		wait  time.Duration
	}{
		{0, true, 1, 100 * time.Millisecond},
		{99, false, 0, time.Millisecond}, // the cached state still refuses, so the store is not called
		{100, true, 1, 100 * time.Millisecond},
		{200, true, 1, 100 * time.Millisecond}, // the back-off ends at 1 s, when the debt has fallen to two calls
		{300, true, 0, 700 * time.Millisecond},
		{999, true, 0, time.Millisecond},
		{1099, false, 1, 0}, // the state has room, so the store is called
		{1199, true, 1, 100 * time.Millisecond},
		{1999, true, 0, time.Millisecond},
		{2000, true, 1, 99 * time.Millisecond},
	} {
		now := noon.Add(time.Duration(c.ms) * time.Millisecond)
		if c.taken {
			takeAt(t, first, now, charge)
		}
		if d := takeAt(t, second, now, charge); d.Allowed != (c.wait == 0) || d.RetryAfter != c.wait || d.StoreCalls != c.calls {
			t.Errorf("step %d, after %d ms: got %+v, want %d calls and a wait of %s", i, c.ms, d, c.calls, c.wait)
		}
	}
}

// After the store refused a cost of 50, the back-off refuses costs of 50 or more. It refuses none
// of these: smaller costs for which the state had room, calls of Peek, forced charges, other callers.
func TestLimiter_Take_backOff_cost(t *testing.T) {
	r := newRemote()
	draw := func(n int) int { return n - 1 } // the longest back-off
	first, second := storetest.Must(limiter.New(r, limiter.Options{})), storetest.Must(limiter.New(r, limiter.Options{IntN: draw}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Burst: 60, Window: time.Second}})
	charge := func(cost int64) limiter.Charge { return limiter.Charge{Subject: user, Limit: l, Cost: cost} }
	now := noon
	for range 10 { // other environments take the quota for which the second environment waits
		takeAt(t, first, now, charge(50))
		if d := takeAt(t, second, now, charge(50)); d.Allowed {
			t.Fatalf("got %+v, want a refusal", d)
		}
		now = now.Add(50 * time.Millisecond)
	}
	if d := takeAt(t, second, now, charge(50)); d.Allowed || !d.FromCache || d.RetryAfter < 100*time.Millisecond {
		t.Errorf("a cost of 50: got %+v, want a back-off", d)
	}
	if d := takeAt(t, second, now, charge(1)); !d.Allowed {
		t.Errorf("a cost of 1: got %+v, want it allowed", d)
	}
	if d, err := second.Peek(ctx, now, []limiter.Charge{charge(50)}); err != nil || !d.Allowed {
		t.Errorf("a cost of 0: got %+v, %v, want it allowed", d, err)
	}
	forced := charge(50)
	forced.Force = true
	if d := takeAt(t, second, now, forced); !d.Allowed || d.StoreCalls != 1 {
		t.Errorf("a forced charge: got %+v, want it charged", d)
	}
}

// The back-off of a refused tier does not refuse another one, although the known state refuses both.
func TestLimiter_Take_backOff_tiers(t *testing.T) {
	r := newRemote()
	first := storetest.Must(limiter.New(r, limiter.Options{}))
	second := storetest.Must(limiter.New(r, limiter.Options{IntN: func(n int) int { return n - 1 }})) // the longest back-off
	tiers := tiersOfTwo(t)
	free, paid, now := tiers[0], tiers[1], noon
	for range 3 { // another environment takes the whole limit
		takeAt(t, first, now, paid)
		takeAt(t, first, now, paid)
		if d := takeAt(t, second, now, free); d.Allowed || d.StoreCalls != 1 {
			t.Fatalf("free: got %+v, want a refusal of the store", d)
		}
		now = now.Add(200 * time.Millisecond)
	}
	if d := takeAt(t, second, now, free); d.Allowed || !d.FromCache || d.RetryAfter != 400*time.Millisecond {
		t.Errorf("free: got %+v, want a back-off", d)
	}
	if d := takeAt(t, second, now, paid); !d.Allowed {
		t.Errorf("paid: got %+v, want it allowed", d)
	}
}

// The back-off of requests that share a call is that of the tier with the most room.
func TestLimiter_Take_backOff_group(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, now := newPaced(), noon
		l, theirs, tiers := over(store, 0), over(store.remote, 0), tiersOfTwo(t)
		store.answer = func(call int, _ context.Context) error { // another environment takes the whole limit during the second call
			for range 2 * (1 - call%2) {
				takeAt(t, theirs, now, tiers[1])
			}
			return nil
		}
		for range 3 {
			oneByOne(3, func(i int) limiter.Decision {
				if i == 0 {
					return mustPeek(t, l, now, tiers[0])
				}
				return takeAt(t, l, now, tiers[i-1])
			})
			now = now.Add(200 * time.Millisecond)
		}
		if d := takeAt(t, l, now, tiers[1]); d.Allowed || !d.FromCache {
			t.Errorf("paid: got %+v after calls of %v, want a back-off", d, store.costs)
		}
	})
}

// During the back-off of a shadow limit, the process makes no store call, and Shadowed is not set.
func TestLimiter_Take_backOff_shadow(t *testing.T) {
	r := newRemote()
	first, second := storetest.Must(limiter.New(r, limiter.Options{})), storetest.Must(limiter.New(r, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Shadow: true,
		Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Burst: 1, Window: time.Second}})}
	now := noon
	for range 5 {
		takeAt(t, first, now, charge)
		takeAt(t, second, now, charge)
		now = now.Add(100 * time.Millisecond)
	}
	before := r.takes.Load()
	if d := takeAt(t, second, now, charge); !d.Allowed || d.Shadowed != nil || r.takes.Load() != before {
		t.Errorf("during the back-off, with room in the store: got %+v after %d calls, want Shadowed nil and no call", d, r.takes.Load()-before)
	}
	takeAt(t, first, now, charge)
	if d := takeAt(t, first, now, charge); d.Shadowed == nil {
		t.Errorf("refused by its state: got %+v, want Shadowed set", d)
	}
}

// In a flood over many environments, each environment makes about one refused call a second, even if the
// limit gets room for a request every few milliseconds. The limit admits as many requests as without the
// flood.
func TestLimiter_Take_floodOfMany(t *testing.T) {
	const n, seconds, perSecond = 50, 20, 100
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := newRemote()
			all := environments(n, r)
			charge := limiter.Charge{Subject: user, Cost: 1,
				Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: perSecond, Window: time.Second}})}
			admitted, calls := 0, int64(0)
			for ms := range seconds * 1000 {
				if ms == 10_000 {
					admitted, calls = 0, r.takes.Load()
				}
				for i := range 5 { // 5,000 requests a second
					if takeAt(t, all[(ms*5+i*7)%n], noon.Add(time.Duration(ms)*time.Millisecond), charge).Allowed {
						admitted++
					}
				}
			}
			refused := r.takes.Load() - calls - int64(admitted)
			if low := perSecond * 10 * 95 / 100; admitted < low || admitted > perSecond*10+perSecond {
				t.Errorf("%d admitted in 10 s, want %d to %d", admitted, low, perSecond*10+perSecond)
			}
			if most := int64(n * 10 * 2); refused > most {
				t.Errorf("%d calls refused in 10 s, want at most %d", refused, most)
			}
		})
	}
}

// A process remembers a sixth of Options.Subjects as refused callers. If more callers flood it in turn, each of their requests calls
// the store.
func TestLimiter_Take_floodOfCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no call meets its deadline, however busy the machine is
		for _, c := range []struct{ callers, calls int64 }{{10_000, 0}, {15_000, 15_000}} {
			r := newRemote()
			l := storetest.Must(limiter.New(r, limiter.Options{}))
			once := perMinute(t, "a", 1)
			for round := range 3 { // the first admits, and the second fills the denial cache
				r.takes.Store(0)
				for i := range c.callers {
					takeAt(t, l, noon, limiter.Charge{Subject: limiter.User(strconv.FormatInt(i, 10)), Limit: once, Cost: 1})
				}
				if calls := r.takes.Load(); round == 2 && calls != c.calls {
					t.Errorf("%d refused callers: got %d calls, want %d", c.callers, calls, c.calls)
				}
			}
		}
	})
}

// A process asks the store ten times a second about a refused caller of a limit of requests in flight, because any
// process can release a slot at any time.
func TestLimiter_Take_floodConcurrent(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Limit: concurrent(t, 1), Cost: 1}
	for ms := range 10_001 {
		if d := takeAt(t, l, noon.Add(time.Duration(ms)*time.Millisecond), charge); d.Allowed != (ms == 0) {
			t.Fatalf("after %d ms: got %+v", ms, d)
		}
	}
	if calls := r.takes.Load(); calls != 100 {
		t.Errorf("10 s of refused requests: got %d calls, want 100", calls)
	}
}

// tenth is a limit of one request in 100 ms.
func tenth(t *testing.T) limiter.Charge {
	return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket,
		Requests: 10, Burst: 1, Window: time.Second}})}
}

// tiersOfTwo are charges of a tier with one request of a burst of two, and of one with both.
func tiersOfTwo(t *testing.T) (tiers [2]limiter.Charge) {
	for i := range tiers {
		tiers[i] = limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{
			Algorithm: algo.TokenBucket, Requests: 10, Burst: int64(i + 1), Of: 2, Window: time.Second}})}
	}
	return tiers
}

// backedOff returns a time at which l backs off from the charge. The charge is on a limit of one request in 100 ms.
// The store has room then.
func backedOff(t *testing.T, r *remote, l *limiter.Limiter, charge limiter.Charge) time.Time {
	t.Helper()
	for step := range 4 {
		for _, l := range []*limiter.Limiter{over(r, 0), l} {
			takeAt(t, l, noon.Add(time.Duration(step)*100*time.Millisecond), charge)
		}
	}
	now := noon.Add(400 * time.Millisecond)
	if d := takeAt(t, l, now, charge); d.Allowed || !d.FromCache {
		t.Fatalf("got %+v, want a back-off", d)
	}
	return now
}

// A clock that is set back, a settlement, which can give quota back, and a Peek that finds room end a back-off.
func TestLimiter_Take_backOff_ends(t *testing.T) {
	for name, end := range map[string]func(l *limiter.Limiter, now time.Time, charge limiter.Charge, r *limiter.Receipt) time.Time{
		"clock": func(*limiter.Limiter, time.Time, limiter.Charge, *limiter.Receipt) time.Time {
			return noon.Add(-time.Hour)
		},
		"settlement": func(_ *limiter.Limiter, now time.Time, _ limiter.Charge, r *limiter.Receipt) time.Time {
			r.Refund(ctx, now)
			return now
		},
		"Peek": func(l *limiter.Limiter, now time.Time, charge limiter.Charge, _ *limiter.Receipt) time.Time {
			mustPeek(t, l, now, charge)
			return now
		},
	} {
		r, charge := newRemote(), tenth(t)
		l := over(r, 0)
		_, receipt := hold(t, l, noon.Add(-time.Second), charge)
		now := end(l, backedOff(t, r, l, charge), charge, receipt)
		if d := takeAt(t, l, now, charge); d.StoreCalls != 1 {
			t.Errorf("%s: got %+v, want a call", name, d)
		}
	}
}

// A caller floods first, and then waits for each Retry-After. The store admits many requests of the caller. After that,
// other environments take all quota. The admissions let the environment make some further refused calls, but not one
// for each admission.
func TestLimiter_Take_backOff_credit(t *testing.T) {
	both, charge := environments(2, newRemote()), tenth(t)
	now, refused := noon, 0
	ask := func(taken bool) {
		if taken {
			takeAt(t, both[0], now, charge)
		}
		d := takeAt(t, both[1], now, charge)
		if d.Allowed == taken {
			t.Fatalf("after %s: got %+v, want allowed %t", now.Sub(noon), d, !taken)
		}
		if !d.Allowed && d.StoreCalls > 0 {
			refused++
		}
		now = now.Add(100 * time.Millisecond)
	}
	ask(true)
	for range 100 {
		takeAt(t, both[1], noon, charge)
	}
	for range 100 {
		ask(false)
	}
	for refused = 0; now.Before(noon.Add(15 * time.Second)); {
		ask(true)
	}
	if refused < 11 || refused > 20 {
		t.Errorf("%d refused calls in 5 s after 100 admissions, want 11 to 20: three at once, eight for admissions, and one or two a second",
			refused)
	}
}

// A call that is refused as the known state says, here after a settlement, counts in no back-off.
func TestLimiter_Take_backOff_expected(t *testing.T) {
	r, charge, now := newRemote(), tenth(t), noon
	l, theirs := over(r, 0), over(r, 0)
	_, receipt := hold(t, l, now, charge)
	receipt.Settle(ctx, now, func(limiter.Charge) int64 { return 2 })
	for _, wait := range []time.Duration{0, 200, 100, 100} {
		now = now.Add(wait * time.Millisecond)
		if wait > 0 {
			takeAt(t, theirs, now, charge)
		}
		if d := takeAt(t, l, now, charge); d.Allowed || d.StoreCalls != 1 {
			t.Errorf("after %s: got %+v, want a call that is refused", wait*time.Millisecond, d)
		}
	}
}

// Each second request of a caller is refused, and the others are admitted. The admissions pay for the refused calls, so
// there is no back-off.
func TestLimiter_Take_backOff_patient(t *testing.T) {
	r, charge := newRemote(), tenth(t)
	theirs, ours := over(r, 0), over(r, 0)
	for i := range 50 {
		now := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		if i%2 == 0 {
			takeAt(t, theirs, now, charge)
		}
		if d := takeAt(t, ours, now, charge); d.Allowed != (i%2 == 1) || d.StoreCalls != 1 {
			t.Fatalf("request %d: got %+v, want allowed %t after one call", i, d, i%2 == 1)
		}
	}
}

// A slot can be released at any time, so a concurrent limit has no back-off.
func TestLimiter_Take_backOff_slots(t *testing.T) {
	both := environments(2, newRemote())
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: concurrent(t, 1)}
	now := noon
	for range 5 {
		if d := mustPeek(t, both[1], now, charge); !d.Allowed {
			t.Fatalf("got %+v, want a free slot", d)
		}
		_, receipt := hold(t, both[0], now, charge)
		if d := takeAt(t, both[1], now, charge); d.Allowed {
			t.Fatalf("got %+v, want a refusal", d)
		}
		now = now.Add(150 * time.Millisecond)
		release(t, receipt, now)
	}
	if d := takeAt(t, both[1], now, charge); !d.Allowed {
		t.Errorf("after five refused calls and a release: got %+v, want it allowed", d)
	}
}

// The bound of the denial cache counts a subject with many limits as several subjects.
func TestOptions_Subjects(t *testing.T) {
	// most subjects of a size that fit a cache of 8, by the number of limits of each subject
	for each, most := range map[int]int{1: 8, 4: 8, 100: 2} {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{Subjects: 6 * 8}))
		limits := make([]*limiter.Limit, each)
		for i := range limits {
			limits[i] = limit(t, limiter.Limit{Name: "l" + strconv.Itoa(i), Rate: algo.Rate{Requests: 1, Window: time.Hour}})
		}
		send := func(caller int, l0 *limiter.Limit) limiter.Decision {
			return take(t, l, limiter.Charge{Subject: limiter.User(strconv.Itoa(caller)), Limit: l0, Cost: 1})
		}
		for caller := range 8 {
			for _, l0 := range limits {
				send(caller, l0)
			}
		}
		cached := 0
		for caller := range 8 {
			for _, l0 := range limits[len(limits)-1:] {
				if d := send(7-caller, l0); d.Allowed || d.RetryAfter == 0 {
					t.Fatalf("got %+v, want a refusal with a wait", d)
				} else if d.FromCache {
					cached++
				}
			}
		}
		if cached > most || most == 8 && cached < 5 {
			t.Errorf("%d limits each: %d of 8 subjects are in the cache, want at most %d", each, cached, most)
		}
	}
}
