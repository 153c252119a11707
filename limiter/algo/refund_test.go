package algo_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A refunded bucket never has more quota than a model that charges only the actual costs. The margin of a
// refund is the largest difference between two clocks plus the longest delay of a refund.
func TestBucket_Refund(t *testing.T) {
	const spread, late = time.Second, 500 * time.Millisecond
	for _, rate := range []algo.Rate{
		{Requests: 8, Window: 8 * time.Second},
		{Requests: 4, Window: 12 * time.Second},
		{Requests: 20, Window: 2 * time.Second},
	} {
		rate.Algorithm = algo.TokenBucket
		b := machine(t, rate).(*algo.Bucket)
		given := 0
		for seed := range uint64(20_000) {
			g := newRefundGame(b, seed, spread, late)
			given += g.run(t)
		}
		if given == 0 {
			t.Errorf("%s: got no refund in all games, want some", b.Fingerprint())
		}
	}
}

type refundGame struct {
	*rand.Rand
	b            *algo.Bucket
	seed         uint64
	spread, late time.Duration
	now          algo.Instant
	real, model  algo.State
	charged      []charge // charges that may be refunded later
	sent         []charge // charges whose refund has not reached the store yet
}

type charge struct {
	at      algo.Instant // instant on the clock that made the charge
	left    algo.State
	cost    int64
	elapsed time.Duration
	due     algo.Instant
}

func newRefundGame(b *algo.Bucket, seed uint64, spread, late time.Duration) *refundGame {
	return &refundGame{Rand: rand.New(rand.NewPCG(seed, 1)), b: b, seed: seed, spread: spread, late: late, now: start}
}

func (g *refundGame) run(t *testing.T) (given int) {
	t.Helper()
	for range 3 + g.IntN(40) {
		steps := []time.Duration{1, g.b.Interval / 4, g.b.Interval, 3 * g.b.Interval, g.b.Depth}
		g.now = g.now.Add(time.Duration(g.Int64N(int64(steps[g.IntN(len(steps))]) + 1)))
		kept := g.sent[:0]
		for _, c := range g.sent {
			if c.due > g.now {
				kept = append(kept, c)
			} else if g.apply(c) {
				given++
			}
		}
		g.sent = kept
		g.event()
		if g.real.TAT < g.model.TAT && g.real.TAT > 0 {
			t.Fatalf("%s, seed %d: got a TAT %s before the TAT of a bucket without the refunded charges, want no earlier TAT", g.b.Fingerprint(),
				g.seed, g.model.TAT.Sub(g.real.TAT))
		}
	}
	return given
}

// event plays a request, a charge that is refunded later, or the start of such a refund.
func (g *refundGame) event() {
	clock := g.now.Add(time.Duration(g.Int64N(int64(g.spread)+1)) - g.spread/2)
	cost := 1 + g.Int64N(g.b.Burst)
	switch g.IntN(3) {
	case 0:
		if next, ok := g.b.Take(g.real, clock, cost); ok {
			g.real = next
			g.model.TAT = max(g.model.TAT, clock).Add(g.b.Increment(cost))
		}
	case 1:
		if next, ok := g.b.Take(g.real, clock, cost); ok {
			g.real = next
			actual := max(0, g.Int64N(2*cost)-cost) // 0 for half of the charges: their whole cost is refunded
			if actual > 0 {
				g.model.TAT = max(g.model.TAT, clock).Add(g.b.Increment(actual))
			}
			g.charged = append(g.charged, charge{at: g.now, left: next, cost: cost - actual})
		}
	case 2:
		if len(g.charged) > 0 {
			i := g.IntN(len(g.charged))
			c := g.charged[i]
			g.charged = append(g.charged[:i], g.charged[i+1:]...)
			c.elapsed, c.due = g.now.Sub(c.at), g.now.Add(time.Duration(g.Int64N(int64(g.late)+1)))
			g.sent = append(g.sent, c)
		}
	}
}

func (g *refundGame) apply(c charge) bool {
	before := g.real
	g.real = g.b.Refund(g.real, c.left, c.cost, c.elapsed+g.spread+g.late)
	return g.real != before
}

// Force charges all of the cost except the part above the largest debt. Excess returns exactly that
// part.
func TestMachine_Excess(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute}, {Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute},
		{Algorithm: algo.Concurrent, Requests: 10, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute}, {Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Minute,
			Counts: true},
	} {
		m, minute := machine(t, rate), start-start%algo.Instant(time.Minute)
		for _, c := range []struct{ used, cost, want int64 }{{0, 20, 0}, {0, 21, 1}, {6, 14, 0}, {6, 15, 1}, {20, 0, 0}, {20, 4, 4},
			{0, 1e9, 1e9 - 20}} {
			s := m.Force(algo.State{}, minute, c.used)
			if got := m.Excess(s, minute, c.cost); got != c.want {
				t.Errorf("%s: a charge of %d after %d: got an excess of %d, want %d", m.Fingerprint(), c.cost, c.used, got, c.want)
			}
			if used, want := m.Used(m.Force(s, minute, c.cost), minute), c.used+c.cost-c.want; used != want {
				t.Errorf("%s: after a charge of %d: got a usage of %d, want %d", m.Fingerprint(), c.cost, used, want)
			}
		}
	}
}

// A window's refund is exact in the window of the charge, and has no effect in another window.
func TestWindow_Refund(t *testing.T) {
	w := machine(t, algo.Rate{Requests: 10, Window: time.Minute, Counts: true}).(*algo.Window)
	charged := algo.State{Window: 7, Count: 5}
	for _, c := range []struct{ s, want algo.State }{
		{algo.State{Window: 7, Count: 6, Previous: 3}, algo.State{Window: 7, Count: 2, Previous: 3}},
		{algo.State{Window: 8, Count: 6, Previous: 5}, algo.State{Window: 8, Count: 6, Previous: 1}},
		{algo.State{Window: 7, Count: 4}, algo.State{Window: 7}},
		{algo.State{Window: 8, Previous: 4}, algo.State{Window: 8}},
		{algo.State{Window: 9, Count: 6, Previous: 5}, algo.State{Window: 9, Count: 6, Previous: 5}},
		{algo.State{Window: 6, Count: 6, Previous: 5}, algo.State{Window: 6, Count: 6, Previous: 5}},
		{algo.State{Window: 7, Count: 3}, algo.State{Window: 7, Count: 3}}, // Count is lower than the refunded cost, so nothing is refunded
		{algo.State{}, algo.State{}},
	} {
		if got := w.Refund(c.s, charged, 4, time.Hour); got != c.want {
			t.Errorf("%+v: got %+v after the refund, want %+v", c.s, got, c.want)
		}
	}
}

// A refund that returns no quota does not change the state. Any other refund increments State.Refunds by
// one.
func TestBucket_Refund_counted(t *testing.T) {
	b := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 1, Window: time.Second, Burst: 5})
	first, _ := b.Take(algo.State{}, start, 1)
	second, _ := b.Take(first, start, 1)
	other := algo.State{TAT: second.TAT, Refunds: 1}
	for name, c := range map[string]struct {
		now, charged algo.State
		late         time.Duration
		want         algo.State
	}{
		"too late":                       {second, first, time.Second, second},
		"of one nanosecond":              {second, first, time.Second - 1, algo.State{TAT: second.TAT - 1, Refunds: 1}},
		"without other charges":          {second, second, time.Hour, algo.State{TAT: first.TAT, Refunds: 1}},
		"after a charge and its refund":  {other, second, time.Hour, other},
		"after these, of one nanosecond": {other, second, time.Second - 1, algo.State{TAT: second.TAT - 1, Refunds: 2}},
	} {
		if got := b.Refund(c.now, c.charged, 1, c.late); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// A log's refund removes the entries of the charge if all of them are still in the log.
func TestLog_Refund(t *testing.T) {
	l := machine(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute})
	entries := func(after ...algo.Instant) algo.State {
		for i := range after {
			after[i] += start
		}
		return algo.State{Newest: start + 9, Entries: algo.NewEntries(after...)}
	}
	for _, c := range []struct {
		name    string
		s       algo.State
		charged algo.Instant
		cost    int64
		want    algo.State
	}{
		{"all", entries(3, 3), 3, 2, entries()},
		{"among others", entries(1, 3, 3, 3, 4), 3, 2, entries(1, 3, 4)},
		{"the oldest", entries(3, 4, 5), 3, 1, entries(4, 5)},
		{"too few", entries(1, 3, 4), 3, 2, entries(1, 3, 4)},
		{"none", entries(2, 4), 3, 1, entries(2, 4)},
	} {
		if got := l.Refund(c.s, algo.State{Newest: start + c.charged}, c.cost, 0); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
