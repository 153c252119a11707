package dynamostore_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The store trims a larger log when the list has twice as many entries as the capacity. It keeps entries that
// still count according to a slow clock.
func TestStore_tidy_log(t *testing.T) {
	b, who := newTable(t), caller()
	limit := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.SlidingLog, Requests: 20, Window: time.Second})
	// The charges are 10 s apart, and the window is 1 s. left is the number of entries after the charge.
	for i, c := range []struct {
		cost int64
		left int
	}{{20, 20}, {20, 20}, {19, 39}, {1, 1}} {
		if !b.take(t, noon.Add(time.Duration(i)*10*time.Second), limiter.Charge{Subject: who, Limit: limit, Cost: c.cost}) {
			t.Fatal("got a refusal, want an allowed request")
		}
		if got := len(b.item(who)["l"+limit.ID.String()].(*types.AttributeValueMemberL).Value); got != c.left {
			t.Errorf("after charge %d: got %d entries, want %d", i+1, got, c.left)
		}
	}
}

// A trim keeps the entries and instants that other processes appended since the read. A process whose
// state is older than the trim admits neither too many nor too few requests.
func TestStore_tidy_logRace(t *testing.T) {
	other, ctx, who := newTable(t), context.Background(), caller()
	limit := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.SlidingLog, Requests: 40, Window: 10 * time.Second})
	take := func(store limiter.Store, at time.Time, cost int64, hint algo.Result) (bool, algo.Result) {
		t.Helper()
		results := []algo.Result{hint}
		ok, err := store.Take(ctx, algo.InstantOf(at), who, []limiter.Charge{{Subject: who, Limit: limit, Cost: cost}}, results)
		if err != nil {
			t.Fatal(err)
		}
		return ok, results[0]
	}
	_, stale := take(other, noon, 40, algo.Result{})
	now := noon.Add(20 * time.Second)
	api := &racing{API: other, before: 3, happens: func() { // runs before the trim, which follows the second attempt
		if ok, _ := take(other, now.Add(-time.Second), 5, stale); !ok {
			t.Error("request while the log is trimmed: got a refusal, want an allowed request")
		}
	}}
	if ok, _ := take(open(api), now, 16, algo.Result{}); !ok || api.updates != 3 {
		t.Fatalf("got allowed %t and %d updates, want 3 updates: an attempt without a state, an attempt with it, and a trim", ok, api.updates)
	}
	entries, err := other.Inspect(ctx, who)
	if err != nil {
		t.Fatal(err)
	}
	// An older instant counts as the newest instant before it in the list.
	instants := slices.Repeat([]algo.Instant{algo.InstantOf(now)}, 21)
	if got, want := entries[0].State.Entries, algo.NewEntries(instants...); got != want {
		t.Errorf("after the trim: got %d entries, want 21 at the newest instant", got.Len())
	}
	if ok, _ := take(other, now, 20, stale); ok {
		t.Error("20 requests with a state from before the trim: got them allowed, want a refusal, because there is room for 19")
	}
	if ok, _ := take(other, now, 19, stale); !ok {
		t.Error("19 requests: got a refusal, want them allowed")
	}
}

// In a large item, the store removes the expired counts of a limit that has three counts, also if few attributes are
// dead. In a small item, it keeps up to eight expired counts.
func TestStore_tidy_crowded(t *testing.T) {
	for _, c := range []struct{ windows, buckets, last, want int }{{2, 0, 1, 5}, {6, 0, 1, 6}, {1, 8, 9, 1}} {
		b, who := newTable(t), caller()
		var charges []limiter.Charge
		for i := range c.windows + c.buckets {
			rate := sliding
			if i >= c.windows {
				rate = bucket
			}
			charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "l"+strconv.Itoa(i), rate), Cost: 1})
		}
		for visit, some := range [][]limiter.Charge{charges, charges, charges[:c.last]} {
			b.take(t, noon.Add(time.Duration(visit)*10*time.Minute), some...)
		}
		counts := 0
		for name := range b.item(who) {
			if name[0] == 'c' {
				counts++
			}
		}
		if counts != c.want {
			t.Errorf("%+v: got %d counts after three visits, want %d", c, counts, c.want)
		}
	}
}

// The store removes a limit after exactly one idle hour, and not a nanosecond earlier. It keeps
// attributes that it cannot parse.
func TestStore_tidy_idle(t *testing.T) {
	b, who := newTable(t), caller()
	second := algo.Rate{Requests: 10, Window: time.Second, Counts: true}
	for i := range 9 {
		b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), second), Cost: 1})
	}
	odd := "f" + limiter.NewID("odd").String()
	b.set(who, memtable.Item{odd: number(7)})
	stays := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "stays", algo.Rate{Algorithm: algo.TokenBucket, Requests: 10,
		Window: time.Minute}), Cost: 1}
	idle := noon.Truncate(time.Second).Add(2*time.Second + time.Hour)
	b.take(t, idle.Add(-1), stays)
	if n := len(b.item(who)); n < 9*4 {
		t.Errorf("a nanosecond before an idle hour: got %d attributes, want at least %d", n, 9*4)
	}
	b.take(t, idle, stays)
	item := b.item(who)
	if n := len(item); n > 8 {
		t.Errorf("after an idle hour: got %d attributes, want at most 8: %v", n, item)
	}
	if _, ok := item[odd]; !ok {
		t.Error("unreadable attribute: got it removed, want it kept")
	}
}

// A refused request converts three limits that count nothing. The store keeps them for an hour, so a process
// with older rules still charges the newer limits. It does not shorten the life that another limit needs.
func TestStore_tidy_converted(t *testing.T) {
	limit := func(name string, version int64, a algo.Algorithm) *limiter.Limit {
		return storetest.Must(limiter.NewLimit(limiter.Limit{Name: name, Version: version, Rate: algo.Rate{Algorithm: a, Requests: 10,
			Window: time.Minute, Counts: true}}))
	}
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingLog} {
		b, who := newTable(t), caller()
		charges := func(version int64, a algo.Algorithm, names ...string) (all []limiter.Charge) {
			for _, name := range names {
				all = append(all, limiter.Charge{Subject: who, Limit: limit(name, version, a), Cost: 1})
			}
			return all
		}
		b.take(t, noon, limiter.Charge{Subject: who, Limit: day(t), Cost: 1})
		b.take(t, noon, charges(1, algo.FixedWindow, "a", "b", "c")...)
		now := noon.Add(2 * time.Minute)
		full := limiter.Charge{Subject: who, Limit: limit("full", 1, algo.FixedWindow), Cost: 10}
		b.take(t, now, full)
		if b.take(t, now, append(charges(2, a, "a", "b", "c"), full)...) {
			t.Fatalf("%s: got an allowed request, want a refusal", a)
		}
		if left := b.life(who, now); left < 12*time.Hour {
			t.Errorf("%s: got an expiry in %s after the refusal, want at least 12 h", a, left)
		}
		b.take(t, now, charges(1, algo.FixedWindow, "d")...)
		entries, err := b.Inspect(context.Background(), who)
		if err != nil {
			t.Fatal(err)
		}
		newer := 0
		for _, e := range entries {
			if e.Version == 2 {
				newer++
			}
		}
		if newer != 3 {
			t.Errorf("%s: got %d limits of the newer rules, want 3: %+v", a, newer, entries)
		}
	}
}

func day(t *testing.T) *limiter.Limit {
	return storetest.Limit(t, "day", algo.Rate{Requests: 10, Window: 24 * time.Hour, Algorithm: algo.FixedWindow})
}

// A settlement above the reserve tidies the item like a charge: it removes idle limits, and does not
// shorten the life that a limit of newer rules needs.
func TestStore_tidy_settled(t *testing.T) {
	b := newTable(t)
	stays := storetest.Limit(t, "stays", algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute})
	settle := func(who limiter.Subject, at time.Time) memtable.Item {
		t.Helper()
		more := []limiter.Charge{{Subject: who, Limit: stays, Cost: 1, Force: true}}
		if _, err := b.Settle(context.Background(), algo.InstantOf(at), who, more, make([]algo.Result, 1), 0); err != nil {
			t.Fatal(err)
		}
		return b.item(who)
	}
	idle := caller()
	for i := range 9 {
		b.take(t, noon, limiter.Charge{Subject: idle, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i),
			algo.Rate{Requests: 10, Window: time.Second, Counts: true}), Cost: 1})
	}
	if item := settle(idle, noon.Add(2*time.Hour)); len(item) > 8 {
		t.Errorf("after two idle hours: got %d attributes, want at most 8: %v", len(item), item)
	}
	daily := caller()
	b.take(t, noon, limiter.Charge{Subject: daily, Limit: day(t), Cost: 1})
	settle(daily, noon)
	if left := b.life(daily, noon); left < 12*time.Hour {
		t.Errorf("the count of a day: got an expiry in %s, want at least 12 h", left)
	}
}

// The number of idle limits and expired counts is unbounded, but each removal fits into one expression. After a
// few decisions all of them are removed, and each decision is one call again.
func TestStore_tidy_many(t *testing.T) {
	for name, fill := range map[string]func(t *testing.T, b *table, who limiter.Subject){
		"idle windows": func(t *testing.T, b *table, who limiter.Subject) {
			for i := range 60 {
				b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), sliding), Cost: 1})
			}
		},
		"idle buckets": func(t *testing.T, b *table, who limiter.Subject) {
			for i := range 60 {
				b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), bucket), Cost: 1})
			}
		},
		"dead counts": func(t *testing.T, b *table, who limiter.Subject) {
			limit := storetest.Limit(t, "gone", sliding)
			b.take(t, noon, limiter.Charge{Subject: who, Limit: limit, Cost: 1})
			counts := memtable.Item{}
			for i := range 500 {
				counts["c"+limit.ID.String()+strconv.FormatInt(int64(i), 36)] = number(1)
			}
			b.set(who, counts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, who := newTable(t), caller()
			fill(t, b, who)
			m := &meter{API: b}
			b.Store = open(m)
			stays := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "stays", sliding), Cost: 1}
			for i := range 10 {
				b.take(t, noon.Add(24*time.Hour+time.Duration(i)*time.Second), stays)
			}
			if n := len(b.item(who)); n > 8 {
				t.Errorf("after ten decisions: got %d attributes, want at most 8", n)
			}
			before := m.calls.Load()
			for i := range 10 {
				b.take(t, noon.Add(24*time.Hour+time.Duration(10+i)*time.Second), stays)
			}
			if n := m.calls.Load() - before; n != 10 {
				t.Errorf("after the removal: got %d calls for 10 decisions, want 10", n)
			}
			if m.operators > 300 || m.bytes > 4096 {
				t.Errorf("expression: got %d operators and %d bytes, want at most 300 and 4096", m.operators, m.bytes)
			}
		})
	}
}

// The store reads an item with an expired count. Another process then sets the newest window back, so the count
// is valid again. The store does not remove this count.
func TestStore_tidy_setBack(t *testing.T) {
	b, who, limit := newTable(t), caller(), storetest.Limit(t, "a", sliding)
	newest, index := "x"+limit.ID.String(), limit.Machine().(*algo.Window).Index(algo.InstantOf(noon))
	for i := range int64(12) {
		b.set(who, memtable.Item{"c" + limit.ID.String() + strconv.FormatInt(index-5-i, 36): number(7)})
	}
	api := &racing{API: b, before: 2, happens: func() { // runs between the charge and the removal
		b.set(who, memtable.Item{newest: number(index - 10)})
	}}
	charge := limiter.Charge{Subject: who, Limit: limit, Cost: 1}
	admit(t, open(api), algo.InstantOf(noon), charge)
	if api.updates != 2 {
		t.Fatalf("got %d updates, want the charge and a removal", api.updates)
	}
	if r := admit(t, b, algo.InstantOf(noon.Add(-10*time.Minute)), charge); r[0].State.Count != 8 {
		t.Errorf("the newest window: got a count of %d, want 8", r[0].State.Count)
	}
}
