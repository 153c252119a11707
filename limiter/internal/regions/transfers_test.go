package regions

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

const now = algo.Instant(1_000_000 * time.Hour / 100)

func regional(t *testing.T) *domain.Limit {
	t.Helper()
	l, err := domain.NewLimit(domain.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 30, Window: time.Hour,
		Regions: algo.Regions{Of: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A transfer asks for what its request lacks, and for what earlier requests did not get: the one that asked, and those that
// waited. A clock that is set back ends the pause after it.
func TestTransfers_begin(t *testing.T) {
	const window = 5 * time.Second // the pause is half a second
	key := transferKey{domain.User("alice"), regional(t)}
	for _, c := range []struct {
		name   string
		later  time.Duration
		first  bool
		wanted int64
	}{
		{"in the pause", 400 * time.Millisecond, false, 0}, {"after it", 600 * time.Millisecond, true, 6},
		{"long after it", time.Minute, true, 1}, {"with a clock set back", -time.Minute, true, 1},
	} {
		ts, one, two, three := transfers{}, need{amount: 5}, need{amount: 3}, need{amount: 1}
		ts.begin(now, key, &one, true)
		ts.begin(now, key, &two, true)
		one.made, one.got = true, 2
		ts.end(now, window, &one)
		ts.begin(now.Add(c.later), key, &three, true)
		if two.first || three.first != c.first || three.wanted != c.wanted {
			t.Errorf("%s: got a transfer: %t, of %d; want %t, of %d", c.name, three.first, three.wanted, c.first, c.wanted)
		}
	}
}

// Transfers that run are never forgotten: a second one would move share for the same lack.
func TestTransfers_room(t *testing.T) {
	ts, limit := transfers{}, regional(t)
	key := func(i int) transferKey { return transferKey{domain.User(strconv.Itoa(i)), limit} }
	for i := range mostTransfers {
		k := need{amount: 1}
		ts.begin(now, key(i), &k, true)
		if i > 0 {
			ts.end(now, time.Hour, &k)
		}
	}
	k := need{amount: 1}
	if known := ts.begin(now.Add(time.Minute), key(mostTransfers), &k, true); !known || !k.first || len(ts.all) != 2 || ts.all[key(0)] == nil {
		t.Errorf("got %d transfers, and a new one: %t, want the one that runs and a new one", len(ts.all), k.first)
	}
}

// A region whose answer was lost is not asked again in the same window for a minute.
func TestLostAt_pauses(t *testing.T) {
	lost := lostAt{true, 7, now}
	for _, c := range []struct {
		later time.Duration
		index int64
		want  bool
	}{{time.Second, 7, true}, {time.Second, 8, false}, {lostPause, 7, false}, {-lostPause, 7, false}} {
		if got := lost.pauses(now.Add(c.later), c.index); got != c.want {
			t.Errorf("window %d after %s: got a pause: %t, want %t", c.index, c.later, got, c.want)
		}
	}
}

// No region is asked for share of a limit whose state lies in the future, or of a cost that it can never admit.
func TestAttempt_shortages(t *testing.T) {
	limit := regional(t)
	index := algo.WindowOf(limit.Machine()).Index(now)
	for _, c := range []struct {
		name  string
		ahead int64
		cost  int64
		want  int
	}{{"used up", 0, 1, 1}, {"a window in the future", 100, 1, 0}, {"above the capacity", 0, 31, 0}} {
		a := chain.Ask{Request: &chain.Request{Now: now}}
		a.Add(chain.Line{Limit: limit, Want: c.cost}, domain.Charge{Limit: limit, Cost: c.cost},
			algo.Result{Machine: limit.Machine(), State: algo.State{Window: index + c.ahead, Count: 10}})
		if all, helps := (&attempt{Ask: &a}).shortages(); len(all) != c.want || helps != (c.want > 0) {
			t.Errorf("%s: got %d shortages, share helps: %t; want %d", c.name, len(all), helps, c.want)
		}
	}
}
