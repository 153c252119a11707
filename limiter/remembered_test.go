package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Whoever is overtaken again and again asks half as often each time, and not at all before
// what it was told; one admission, and it asks as before.
func TestLimiter_Take_overtaken(t *testing.T) {
	r := newRemote()
	both := environments(2, r)
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Burst: 1, Window: time.Second}})}
	for i, c := range []struct {
		ms     int
		first  bool // goes first, and is let through
		calls  int64
		wait   time.Duration
		called bool // the other
	}{
		{0, true, 2, 100 * time.Millisecond, true},
		{99, false, 0, time.Millisecond, false},
		{100, true, 2, 200 * time.Millisecond, true},
		{200, true, 1, 100 * time.Millisecond, false},
		{299, false, 0, time.Millisecond, false},
		{300, true, 2, 400 * time.Millisecond, true},
		{700, true, 2, 800 * time.Millisecond, true},
		{1500, true, 2, time.Second, true}, // the trust, and no longer
		{2500, true, 2, time.Second, true},
		{3500, false, 1, 0, true},
		{3501, false, 0, 99 * time.Millisecond, false},
		{3600, true, 2, 200 * time.Millisecond, true},
		{3800, true, 2, 400 * time.Millisecond, true},
	} {
		now := noon.Add(time.Duration(c.ms) * time.Millisecond)
		r.takes.Store(0)
		if c.first && !takeAt(t, both[0], now, charge).Allowed {
			t.Fatalf("%d: the first is refused", i)
		}
		d := takeAt(t, both[1], now, charge)
		if d.Allowed != (c.wait == 0) || d.RetryAfter != c.wait || r.takes.Load() != c.calls || d.Remembered == c.called {
			t.Errorf("%d, after %d ms: %d calls, %+v, want %d calls and to wait %s", i, c.ms, r.takes.Load(), d, c.calls, c.wait)
		}
	}
}

// A flood over many environments costs each of them about one refused call a second, also
// where there is room for another request every few milliseconds, and admits as much as ever.
func TestLimiter_Take_floodOfMany(t *testing.T) {
	const n, seconds, perSecond = 50, 20, 100
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := newRemote()
			all := environments(n, r)
			charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: perSecond, Window: time.Second}})}
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
				t.Errorf("%d calls were refused in 10 s, want %d at most", refused, most)
			}
		})
	}
}

// Who makes its item busier than a store takes is not let through for it: what the store
// refused when it was last asked is refused still. Others are not, and nobody for longer than
// the store would remember.
func TestLimiter_Take_throttled(t *testing.T) {
	throttled := fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Burst: 1, Window: time.Second}})}
	other := charge
	other.Subject = limiter.User("bob")
	take(t, l, other)
	take(t, l, charge)
	r.fail = map[limiter.Subject]error{user: throttled, other.Subject: throttled}
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	if d := takeAt(t, l, at(100), charge); d.Allowed || d.Reason != limiter.ReasonBusy {
		t.Errorf("let through when it was last asked: %+v, want it busy", d)
	}
	r.fail = map[limiter.Subject]error{}
	takeAt(t, l, at(100), charge)
	if d := takeAt(t, l, at(100), charge); d.Allowed {
		t.Fatalf("%+v, want a refusal", d)
	}
	r.fail = map[limiter.Subject]error{user: throttled, other.Subject: throttled}
	if d := takeAt(t, l, at(199), charge); d.Allowed || d.RetryAfter != time.Millisecond || d.StoreCalls != 0 || d.Reason != "" {
		t.Errorf("after 199 ms: %+v, want to wait a millisecond", d)
	}
	if d := takeAt(t, l, at(200), charge); d.Allowed || d.StoreCalls != 1 || d.Reason != limiter.ReasonBusy { // the bucket would be full
		t.Errorf("after 200 ms: %+v, want it busy", d)
	}
	if d := takeAt(t, l, at(199), other); d.Allowed || d.Reason != limiter.ReasonBusy {
		t.Errorf("another caller: %+v, want it busy", d)
	}
}

// While the state of a refusal would be remembered, a store that is too busy is asked half as
// often each time, and refuses.
func TestLimiter_Take_throttled_pause(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{}))
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Burst: 20, Window: time.Second}})}
	take(t, l, charge)
	r.fail = map[limiter.Subject]error{user: fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)}
	if d := take(t, l, charge); d.Allowed || d.Reason != limiter.ReasonBusy {
		t.Errorf("never refused: %+v, want it busy", d)
	}
	r.fail = map[limiter.Subject]error{}
	for range 20 {
		take(t, l, charge)
	}
	r.fail = map[limiter.Subject]error{user: fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)}
	for _, c := range []struct {
		ms, asked int
		wait      time.Duration
	}{{100, 1, 200 * time.Millisecond}, {299, 0, time.Millisecond}, {300, 1, 400 * time.Millisecond}, {700, 1, 800 * time.Millisecond}, {1500, 1, time.Second}, {2000, 0, 500 * time.Millisecond}} {
		d := takeAt(t, l, noon.Add(time.Duration(c.ms)*time.Millisecond), charge)
		if d.Allowed || d.RetryAfter != c.wait || d.StoreCalls != c.asked || d.Reason != "" {
			t.Errorf("after %d ms: %+v, want %d calls and to wait %s", c.ms, d, c.asked, c.wait)
		}
	}
	if d := takeAt(t, l, noon.Add(2500*time.Millisecond), charge); d.Allowed || d.StoreCalls != 1 || d.Reason != limiter.ReasonBusy {
		t.Errorf("when its state would be that of somebody new: %+v, want it busy", d)
	}
}

// A clock that is set back does not make a pause longer.
func TestLimiter_Take_pause_clockBack(t *testing.T) {
	r := newRemote()
	both := environments(2, r)
	charge := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Burst: 1, Window: time.Second}})}
	for ms := range 2 {
		for _, l := range both {
			takeAt(t, l, noon.Add(time.Duration(ms)*100*time.Millisecond), charge)
		}
	}
	r.takes.Store(0)
	if takeAt(t, both[1], noon.Add(-time.Hour), charge); r.takes.Load() != 1 {
		t.Error("refused an hour before it was seen")
	}
}
