package algo_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

func regions(tb testing.TB, rate algo.Rate, n int) (all []*algo.Shared) {
	tb.Helper()
	for place := range n {
		rate.Regions = algo.Regions{Of: n, Place: place}
		all = append(all, machine(tb, rate).(*algo.Shared))
	}
	return all
}

// game is a state of several regions that share a limit, and of the credits on their way. Its length is in ns.
type game struct {
	now     [3]algo.Instant // clock of each region; the regions that do not play stay at 0
	states  [3]algo.State
	flying  [2]credit
	windows [4]int64 // requests that were admitted in each window
}

type credit struct {
	to            int
	index, amount int64
}

// In all games of a few regions with small limits, the regions together admit no more than one store: with requests,
// refunds, and transfers whose credits arrive at once, late or never. With clocks apart, they admit at most the limit in
// each window.
func TestShared_exhaustive(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
		for _, c := range []struct {
			apart    bool
			regions  int
			requests int64
			end      algo.Instant
		}{{false, 2, 1, 7}, {false, 2, 2, 7}, {false, 2, 3, 5}, {false, 3, 2, 4}, {true, 2, 1, 7}, {true, 2, 2, 7}, {true, 2, 3, 4}} {
			t.Run(fmt.Sprintf("%s/apart=%t/%d in %d", algorithm, c.apart, c.requests, c.regions), func(t *testing.T) {
				rate := algo.Rate{Algorithm: algorithm, Requests: c.requests, Window: 3}
				e := explorer{t: t, apart: c.apart, end: c.end, all: regions(t, rate, c.regions), seen: map[game]bool{}}
				e.explore(game{})
				if len(e.seen) < 100 || !e.moved {
					t.Errorf("got %d states, some with moved share %t, want more", len(e.seen), e.moved)
				}
			})
		}
	}
}

type explorer struct {
	t     *testing.T
	apart bool
	end   algo.Instant // the last instant of a game
	all   []*algo.Shared
	seen  map[game]bool
	moved bool
}

// explore makes every move in g. The windows have 3 ns.
func (e *explorer) explore(g game) {
	if e.seen[g] {
		return
	}
	e.seen[g] = true
	for i := range e.all {
		for _, cost := range []int64{1, 2} {
			e.request(g, i, cost)
		}
		if s := g.states[i]; s.Count > 0 {
			next := g
			next.states[i].Count--
			next.windows[s.Window]--
			e.explore(next)
		}
		for j := range e.all {
			if j != i {
				e.transfer(g, i, j)
			}
		}
		if e.apart && g.now[i] < e.end { // clocks differ by at most 2 ns
			next := g
			next.now[i]++
			if least := min(next.now[0], next.now[1]); next.now[i] <= least+2 && (len(e.all) < 3 || next.now[i] <= next.now[2]+2) {
				e.explore(next)
			}
		}
	}
	if !e.apart && g.now[0] < e.end {
		next := g
		for i := range e.all {
			next.now[i]++
		}
		e.explore(next)
	}
	for i, c := range g.flying {
		if c.amount == 0 {
			continue
		}
		next := g
		next.flying[i] = credit{} // lost
		e.explore(next)
		if s, ok := e.all[c.to].Credit(g.states[c.to], c.index, c.amount); ok {
			next.states[c.to], e.moved = s, true
			e.explore(next)
		}
	}
}

func (e *explorer) request(g game, i int, cost int64) {
	next, ok := e.all[i].Take(g.states[i], g.now[i], cost)
	if !ok {
		return
	}
	g.states[i] = next
	g.windows[next.Window] += cost
	most := e.all[0].Capacity()
	total := algo.State{Window: next.Window, Count: g.windows[next.Window]}
	if next.Window > 0 {
		total.Previous = g.windows[next.Window-1]
	}
	switch {
	case total.Count > most:
		e.t.Fatalf("%+v: got %d admitted in window %d, want at most %d", g, total.Count, next.Window, most)
	case !e.apart && e.all[0].Whole.Used(total, g.now[i]) > most:
		e.t.Fatalf("%+v: one store would count %d, want at most %d", g, e.all[0].Whole.Used(total, g.now[i]), most)
	}
	e.explore(g)
}

// transfer moves share from region j to region i. The credit is on its way afterwards.
func (e *explorer) transfer(g game, i, j int) {
	slot := 0
	if g.flying[0].amount != 0 {
		slot = 1
	}
	if g.flying[slot].amount != 0 {
		return
	}
	index := max(g.states[i].Window, e.all[i].Whole.Index(g.now[i]))
	next, moved := e.all[j].Debit(g.states[j], index, g.now[i], 1)
	if moved == 0 {
		return
	}
	g.states[j], g.flying[slot] = next, credit{i, index, moved}
	e.explore(g)
}

// A region in which nothing moved decides like a window of its base share. With moved share, it decides as if that were
// part of its counts. The base shares have the requests of the limit as their sum.
func TestShared_base(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, algo.MaxRegions).Draw(t, "regions")
		rate := algo.Rate{Algorithm: rapid.SampledFrom([]algo.Algorithm{algo.SlidingWindow, algo.FixedWindow}).Draw(t, "algorithm"),
			Requests: rapid.Int64Range(1, 1000).Draw(t, "requests"), Window: time.Minute}
		var sum int64
		place := rapid.IntRange(0, n-1).Draw(t, "place")
		var w *algo.Shared
		for i := range n {
			rate.Regions = algo.Regions{Of: n, Place: i}
			m, err := algo.New(rate)
			if err != nil {
				t.Fatal(err)
			}
			sum += m.(*algo.Shared).Base()
			if i == place {
				w = m.(*algo.Shared)
			}
		}
		if sum != rate.Requests {
			t.Fatalf("base shares: got a sum of %d, want %d", sum, rate.Requests)
		}
		now := start.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "now")))
		signed := rapid.Int64Range(-rate.Requests, rate.Requests)
		s := algo.State{Window: w.Whole.Index(start) + rapid.Int64Range(0, 2).Draw(t, "window"), Count: rapid.Int64Range(0, rate.Requests).Draw(t,
			"count"),
			Previous: rapid.Int64Range(0, rate.Requests).Draw(t, "previous")}.WithMoved(signed.Draw(t, "moved"), signed.Draw(t, "moved before"))
		at := w.At(s, now)
		like := algo.State{Window: at.Window, Count: at.Count + at.Moved(), Previous: max(0, at.Previous+at.MovedBefore())}
		part, cost := *w.Whole, rapid.Int64Range(0, rate.Requests).Draw(t, "cost")
		part.Requests = w.Base()
		next, ok := w.Take(s, now, cost)
		want := like.Count <= part.Room(like.Window, now, like.Previous, cost)
		if ok != want || ok && cost > 0 && next.Count != at.Count+cost || !ok && next != s {
			t.Fatalf("%s %+v, cost %d: got allowed %t and %+v, want %t", w.Fingerprint(), s, cost, ok, next, want)
		}
		checkSharedWait(t, w, s, now, cost)
	})
}

// checkSharedWait checks RetryAfter: exact for a cost within the base share, and the next window for a larger one.
func checkSharedWait(t *rapid.T, w *algo.Shared, s algo.State, now algo.Instant, cost int64) {
	t.Helper()
	if cost == 0 {
		return
	}
	wait := w.RetryAfter(s, now, cost)
	_, allowed := w.Take(s, now, cost)
	if allowed != (wait == 0) || wait < 0 || wait == algo.Never {
		t.Fatalf("%s %+v, cost %d: got allowed %t and retry after %s", w.Fingerprint(), s, cost, allowed, wait)
	}
	if _, later := w.Take(s, now.Add(wait), cost); !later && cost <= w.Base() {
		t.Fatalf("%s %+v, cost %d: got a refusal after %s, want an admission", w.Fingerprint(), s, cost, wait)
	}
	if _, early := w.Take(s, now.Add(wait-1), cost); wait > 0 && early {
		t.Fatalf("%s %+v, cost %d: got an admission 1 ns before %s, want a refusal", w.Fingerprint(), s, cost, wait)
	}
	if w.RetryAfter(s, now, w.Capacity()+1) != algo.Never {
		t.Fatalf("%s: got a wait for a cost above the limit, want none", w.Fingerprint())
	}
}

// A conversion counts what a region allowed and what others got from it, and forgets what the region got.
func TestShared_Convert(t *testing.T) {
	rate := algo.Rate{Algorithm: algo.FixedWindow, Requests: 30, Window: time.Minute}
	each := machine(t, rate)
	all := regions(t, rate, 3)
	index := all[0].Whole.Index(start)
	for _, c := range []struct {
		s    algo.State
		want int64
	}{
		{algo.State{Window: index, Count: 18}.WithMoved(-8, 0), 18},
		{algo.State{Window: index, Count: 2}.WithMoved(8, 0), 10},
		{algo.State{Window: index, Count: 2, Previous: 9}.WithMoved(0, 4), 2},
	} {
		if s := algo.Convert(all[0], each, c.s, start); each.Used(s, start) != c.want || s.Moved() != 0 || s.MovedBefore() != 0 {
			t.Errorf("%+v to each: got %+v, want a count of %d", c.s, s, c.want)
		}
		larger := rate
		larger.Requests = 60
		if s := algo.Convert(all[0], regions(t, larger, 3)[0], c.s, start); s.Count != c.want || s.Moved() != 0 {
			t.Errorf("%+v to a limit of 60: got %+v, want a count of %d", c.s, s, c.want)
		}
		sliding, hour := rate, rate
		sliding.Algorithm, hour.Window = algo.SlidingWindow, time.Hour
		before := c.s.Previous + c.s.MovedBefore()
		for _, to := range []algo.Rate{sliding, hour} {
			s := algo.Convert(all[0], regions(t, to, 3)[0], c.s, start)
			if used := s.Count + s.Previous; used != c.want+before || s.Moved() != 0 || s.MovedBefore() != 0 {
				t.Errorf("%+v to a %s of %s: got %+v, want %d and %d counted", c.s, to.Algorithm, to.Window, s, c.want, before)
			}
		}
		bucket := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 30, Window: time.Minute})
		if left := bucket.Remaining(algo.Convert(all[0], bucket, c.s, start), start); left != 30-c.want {
			t.Errorf("%+v to a bucket: got %d remaining, want %d", c.s, left, 30-c.want)
		}
	}
	if s := algo.Convert(each, all[2], algo.State{Window: index, Count: 7}, start); s != (algo.State{Window: index, Count: 7}) {
		t.Errorf("each to shared: got %+v, want a count of 7", s)
	}
}

// A merged state counts at least as much as both states. A part counts its part of what the base share counts.
func TestShared_Merge(t *testing.T) {
	rate := algo.Rate{Algorithm: algo.SlidingWindow, Requests: 300, Window: time.Minute}
	w := regions(t, rate, 3)[0]
	index := w.Whole.Index(start)
	a := algo.State{Window: index, Count: 60, Previous: 5}.WithMoved(20, 0)
	b := algo.State{Window: index + 1, Count: 1, Previous: 90}.WithMoved(0, -70)
	if got, want := algo.Merge(w, a, b), (algo.State{Window: index + 1, Count: 1, Previous: 90}.WithMoved(0, 20)); got != want {
		t.Errorf("merge: got %+v, want %+v", got, want)
	}
	rate.Requests = 50
	if s := algo.Part(w, machine(t, rate), 2, algo.State{Window: index, Count: 150, Previous: 10}.WithMoved(-70, 0),
		start); s != (algo.State{Window: index, Count: 40, Previous: 5}) {
		t.Errorf("half of 80 of a base share of 100: got %+v, want a count of 40", s)
	}
}

// With all share, a region decides like the whole limit.
func TestShared_WithAll(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow} {
		w := regions(t, algo.Rate{Algorithm: a, Requests: 300, Window: time.Minute}, 3)[1]
		index := w.Whole.Index(start)
		for _, now := range []algo.Instant{start, start.Add(70 * time.Second), start.Add(10 * time.Minute)} {
			counted := algo.State{Window: index, Count: 120, Previous: 90}
			got, want := w.Remaining(algo.WithAll(w, counted.WithMoved(50, -20), now), now), w.Whole.Remaining(counted, now)
			if got != want {
				t.Errorf("%s, %s later: got %d remaining, want %d", a, now.Sub(start), got, want)
			}
		}
	}
}

// A region that has moved share is not at full quota until the window ends, so a store keeps its state.
func TestShared_ResetAfter(t *testing.T) {
	w := regions(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: time.Minute}, 3)[0]
	index := w.Whole.Index(start)
	want := w.Whole.Start(index + 1).Sub(start)
	for _, moved := range []int64{-5, 5} {
		if got := w.ResetAfter(algo.State{Window: index}.WithMoved(moved, 0), start); got != want {
			t.Errorf("moved %d: got reset after %s, want %s", moved, got, want)
		}
	}
	if got := w.ResetAfter(algo.State{Window: index - 1}.WithMoved(5, 0), start); got != 0 {
		t.Errorf("moved in the previous window: got reset after %s, want 0", got)
	}
}

// A window of an hour moves little more than what is lacking. A region never gives all if that is not enough.
func TestShared_Debit(t *testing.T) {
	for _, c := range []struct {
		window             time.Duration
		count, lack, moved int64
	}{
		{time.Minute, 0, 1, 88},
		{time.Minute, 0, 95, 95},
		{time.Minute, 0, 500, 88},
		{time.Minute, 20, 1, 40},
		{time.Minute, 20, 70, 70},
		{time.Minute, 20, 81, 40},
		{time.Minute, 99, 5, 1},
		{time.Minute, 100, 1, 0},
		{time.Hour, 0, 1, 12},
		{time.Hour, 20, 1, 10},
		{time.Hour, 20, 30, 30},
		{time.Hour, 97, 1, 1},
		{time.Hour, 20, 81, 40},
		{time.Hour, 20, 80, 80},
	} {
		w := regions(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: c.window}, 3)[1]
		index := w.Whole.Index(start)
		s := algo.State{Window: index, Count: c.count}
		if next, moved := w.Debit(s, index, start, c.lack); moved != c.moved || next.Moved() != c.moved || next.Count != c.count {
			t.Errorf("%s, %d used, %d lacking: got %d moved and %+v, want %d", c.window, c.count, c.lack, moved, next, c.moved)
		}
		if _, moved := w.Debit(s, index-1, start, c.lack); moved != 0 {
			t.Errorf("a debit of an earlier window: got %d, want 0", moved)
		}
		if _, ok := w.Credit(s, index-1, 5); ok {
			t.Error("a credit of an earlier window: got ok, want none")
		}
	}
}

// Parse is the inverse of Fingerprint, and refuses what no region has.
func TestShared_Fingerprint(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.SlidingWindow, Requests: 5, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 5, Window: time.Minute},
		{Requests: 5, Calendar: algo.Calendar{Period: algo.Day, Zone: "Europe/Berlin"}},
		{Requests: 5, Calendar: algo.Calendar{Period: algo.Month, Anchor: "15"}},
	} {
		all := regions(t, rate, 3)
		rate.Regions = algo.Regions{Of: 3, Place: 1, Without: 2}
		for _, w := range append(all, machine(t, rate).(*algo.Shared)) {
			m, err := algo.Parse(w.Fingerprint())
			if err != nil || m.Fingerprint() != w.Fingerprint() || m.(*algo.Shared).Base() != w.Base() {
				t.Errorf("%s: got %v and error %v, want the same", w.Fingerprint(), m, err)
			}
		}
	}
	for _, bad := range []string{"shared-0-1/fixed/1m0s/5", "shared-3-3/fixed/1m0s/5", "shared--1-3/fixed/1m0s/5", "shared-0-11/fixed/1m0s/5",
		"shared-0/fixed/1m0s/5",
		"shared-0-3/bucket/1s/5", "shared-0-3/log/1m0s/5", "shared-0-3/shared-0-3/fixed/1m0s/5", "shared-0-3", "shared-00-3/fixed/1m0s/5"} {
		if m, err := algo.Parse(bad); err == nil && m.Fingerprint() == bad {
			t.Errorf("%s: got %s, want an error", bad, m.Fingerprint())
		}
	}
}

// Only windows can be shared.
func TestNew_regions(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.TokenBucket, Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 3}},
		{Algorithm: algo.SlidingLog, Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 3}},
		{Algorithm: algo.Concurrent, Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 3}},
		{Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 1}},
		{Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 3, Place: 3}},
		{Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: 3, Without: 8}},
		{Requests: 5, Window: time.Minute, Regions: algo.Regions{Of: algo.MaxRegions + 1}},
	} {
		if m, err := algo.New(rate); err == nil {
			t.Errorf("%+v: got %s, want an error", rate, m.Fingerprint())
		}
	}
	if m := regions(t, algo.Rate{Requests: 2, Window: time.Minute}, 3)[2]; m.Base() != 0 || m.Capacity() != 2 || !m.Whole.Sliding {
		t.Errorf("a limit of 2 in three regions: got base %d and capacity %d, want 0 and 2", m.Base(), m.Capacity())
	}
}
