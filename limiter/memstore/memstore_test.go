package memstore_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Suite{
		Open:   func(*testing.T) limiter.Store { return storetest.Must(memstore.New(memstore.Options{})) },
		Margin: 50 * time.Millisecond,
	})
}

var (
	ctx  = context.Background()
	noon = algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
)

func take(t *testing.T, s *memstore.Store, now algo.Instant, who string, l *limiter.Limit, cost int64) error {
	t.Helper()
	charges := []limiter.Charge{{Subject: limiter.User(who), Limit: l, Cost: cost}}
	_, err := s.Take(ctx, now, charges[0].Subject, charges, make([]algo.Result, 1))
	return err
}

// inspect returns the number of limits that the store holds of each subject.
func inspect(t *testing.T, s *memstore.Store, prefix string, n int) (held []int) {
	t.Helper()
	for i := range n {
		entries, err := s.Inspect(ctx, limiter.User(prefix+strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, len(entries))
	}
	return held
}

func sum(numbers []int) (n int) {
	for _, i := range numbers {
		n += i
	}
	return n
}

// A full store evicts those that were unused for the longest time, and no subject that has used half of a limit.
func TestStore_Evicted(t *testing.T) {
	const subjects = 6400
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	slow := storetest.Limit(t, "slow", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour})
	charge := func(now algo.Instant, prefix string, n int, cost int64) {
		for i := range n {
			if err := take(t, s, now.Add(time.Duration(i)), prefix+strconv.Itoa(i), slow, cost); err != nil {
				t.Fatalf("%s%d: got error %v, want none", prefix, i, err)
			}
		}
	}
	charge(noon, "half", 1000, 30)
	charge(noon, "less", 500, 29)
	charge(noon, "used", 500, 1)
	for round := range 5 {
		now := noon.Add(time.Duration(round+1) * 2 * time.Second)
		charge(now, strconv.Itoa(round)+"/", 2000, 1)
		charge(now.Add(time.Second), "used", 500, 0)
	}
	left := 0
	for prefix, want := range map[string]struct{ n, least, most int }{"half": {1000, 1000, 1000}, "used": {500, 500, 500}, "less": {500, 0, 0},
		"0/": {2000, 0, 0}, "1/": {2000, 0, 500}, "4/": {2000, 2000, 2000}} {
		if n := sum(inspect(t, s, prefix, want.n)); n < want.least || n > want.most {
			t.Errorf("%s: got %d of %d subjects left, want %d to %d", prefix, n, want.n, want.least, want.most)
		}
	}
	for prefix, n := range map[string]int{"half": 1000, "used": 500, "less": 500, "0/": 2000, "1/": 2000, "2/": 2000, "3/": 2000, "4/": 2000} {
		left += sum(inspect(t, s, prefix, n))
	}
	if n := int(s.Evicted()); left > subjects || n != 12_000-left || s.Evicted() != 0 {
		t.Errorf("got %d subjects and %d evicted, want all of 12000 once, and at most %d", left, n, subjects)
	}
}

// If all subjects have used half of a limit, a store has no room for another one, or for another limit. Known subjects
// are served.
func TestStore_full(t *testing.T) {
	const subjects = 6400
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	slow := storetest.Limit(t, "slow", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour})
	known, refused := 0, 0
	for i := range 2 * subjects {
		switch err := take(t, s, noon, strconv.Itoa(i), slow, 30); {
		case err == nil:
			known++
		case errors.Is(err, limiter.ErrFull):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if known > subjects || known < subjects*9/10 {
		t.Errorf("got %d known subjects, want nearly all of %d", known, subjects)
	}
	other := storetest.Limit(t, "other", slow.Rate)
	more := []limiter.Charge{{Subject: limiter.User("settled"), Limit: slow, Cost: 1, Force: true}}
	_, settled := s.Settle(ctx, noon, more[0].Subject, more, make([]algo.Result, 1), 0)
	for name, c := range map[string]struct{ got, want error }{
		"a known subject":           {take(t, s, noon, "0", slow, 1), nil},
		"no cost of a new subject":  {take(t, s, noon, "looks", slow, 0), nil},
		"a new limit":               {take(t, s, noon, "0", other, 1), limiter.ErrFull},
		"a settlement":              {settled, limiter.ErrFull},
		"a new subject, too early":  {take(t, s, noon.Add(time.Minute-1), "early", slow, 1), limiter.ErrFull},
		"a new subject, after half": {take(t, s, noon.Add(2*time.Minute), "late", slow, 1), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got error %v, want %v", name, c.got, c.want)
		}
	}
	// Later, all subjects are at full quota.
	for i := range subjects / 2 {
		if err := take(t, s, noon.Add(time.Hour), "new"+strconv.Itoa(i), slow, 1); err != nil {
			t.Fatalf("new subject %d: got error %v, want none", i, err)
		}
	}
	if n := s.Evicted(); n > 1 {
		t.Errorf("got %d subjects evicted, want only one that was below half", n)
	}
}

// Of a full store, in which one subject is below half, that one goes, and no other one.
func TestStore_full_one(t *testing.T) {
	const subjects, flood = 64 * 600, 100_000
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	slow := storetest.Limit(t, "slow", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour})
	if err := take(t, s, noon, "light0", slow, 29); err != nil {
		t.Fatal(err)
	}
	parts := [2]*limiter.Limit{}
	for i, percent := range []int64{10, 100} {
		parts[i] = storetest.Limit(t, "parts", algo.Rate{Algorithm: algo.FixedWindow, Requests: 10 * percent, Of: 1000, Percent: percent,
			Least:  100,
			Window: time.Hour})
	}
	for i := range 2 { // whichever part was charged first, half of the smallest is used
		for j, limit := range []*limiter.Limit{parts[i], parts[1-i]} {
			if err := take(t, s, noon, "parts"+strconv.Itoa(i), limit, int64(49+j)); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer := *parts[1]
	newer.Version, newer.Rate.Least = 2, 50
	for _, limit := range []*limiter.Limit{parts[1], storetest.Must(limiter.NewLimit(newer))} { // now half of the smaller part is used
		if err := take(t, s, noon, "parts2", limit, 20); err != nil {
			t.Fatal(err)
		}
	}
	if of := storetest.Must(s.Inspect(ctx, limiter.User("parts2"))); len(of) != 1 || of[0].Version != 1 {
		t.Errorf("after a charge with a smaller part: got %+v, want the version of the state, 1", of)
	}
	held := sum(inspect(t, s, "parts", 3))
	for i := range flood {
		switch err := take(t, s, noon.Add(time.Duration(i)), strconv.Itoa(i), slow, 30); {
		case err == nil:
			held++
		case !errors.Is(err, limiter.ErrFull):
			t.Fatal(err)
		}
	}
	if n, left := s.Evicted(), sum(inspect(t, s, "light", 1)); n != 1 || left != 0 || held != subjects {
		t.Errorf("got %d evicted, %d of the light subject left and %d others held, want 1, 0 and %d", n, left, held, subjects)
	}
}

// Subjects at full quota go first, also if others that are below half were unused for a longer time.
func TestStore_full_quota(t *testing.T) {
	const subjects = 64 * 100
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	slow := storetest.Limit(t, "slow", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour})
	fast := storetest.Limit(t, "fast", algo.Rate{Algorithm: algo.FixedWindow, Requests: 2, Window: time.Second})
	for i := range 2000 {
		if err := take(t, s, noon, "slow"+strconv.Itoa(i), slow, 30); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 * subjects {
		_ = take(t, s, noon.Add(1), "fast"+strconv.Itoa(i), fast, 1) // the rest is full
	}
	for i := range 1000 {
		if err := take(t, s, noon.Add(2*time.Minute), "new"+strconv.Itoa(i), slow, 30); err != nil {
			t.Fatal(err)
		}
	}
	if n, left := s.Evicted(), sum(inspect(t, s, "slow", 2000)); n != 0 || left != 2000 {
		t.Errorf("got %d evicted and %d of 2000 light subjects left, want 0 and all", n, left)
	}
}

// A subject is evicted with all its limits, and only if it has used less than half of each and moved no share.
func TestStore_full_limits(t *testing.T) {
	const subjects = 1280
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	rate := algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour}
	a, b := storetest.Limit(t, "a", rate), storetest.Limit(t, "b", rate)
	for i, cost := range []int64{5, 4} {
		for j := range 100 {
			for _, c := range []limiter.Charge{{Limit: a, Cost: 1}, {Limit: b, Cost: cost}} {
				if err := take(t, s, noon, strconv.Itoa(i)+"/"+strconv.Itoa(j), c.Limit, c.Cost); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	// A region keeps what it knows of share that moved.
	rate.Regions = algo.Regions{Of: 2}
	shared, who := storetest.Limit(t, "shared", rate), limiter.User("moved0")
	var seen algo.Result
	if n, err := s.Debit(ctx, noon, who, shared, algo.WindowOf(shared.Machine()).Index(noon), 1, &seen); n == 0 || err != nil {
		t.Fatalf("debit: got %d and error %v, want share", n, err)
	}
	for i := range 4 * subjects {
		_ = take(t, s, noon.Add(1), "new"+strconv.Itoa(i), a, 1) // a shard can be full of those that stay
	}
	full := storetest.Must(memstore.New(memstore.Options{Subjects: 64})) // one subject in each shard
	for i := range 640 {
		_ = take(t, full, noon, strconv.Itoa(i), a, 5)
	}
	if n, err := full.Debit(ctx, noon, who, shared, algo.WindowOf(shared.Machine()).Index(noon), 1, &seen); n != 0 || err != nil {
		t.Errorf("debit without room: got %d and error %v, want no share", n, err)
	}
	for prefix, want := range map[string]int{"0/": 200, "1/": 0, "moved": 1} {
		if n := sum(inspect(t, s, prefix, 100)); n != want {
			t.Errorf("%s: got %d limits left, want %d", prefix, n, want)
		}
	}
}

// The entries of a log weigh as they are stored. A known log may grow, at most to twice the bound.
func TestStore_full_weight(t *testing.T) {
	const bound = 6400
	once := storetest.Limit(t, "once", algo.Rate{Algorithm: algo.FixedWindow, Requests: 1, Window: time.Hour})
	for name, c := range map[string]struct {
		requests            int64
		first, more         int64
		least, most, entire int // subjects that fit, and those whose second charge fits
	}{
		"short logs":  {300, 1, 0, bound * 9 / 10 / 3, bound / 3, bound},
		"half":        {300, 150, 150, bound * 8 / 10 / 21, bound / 21, bound},
		"long growth": {327, 1, 240, bound * 9 / 10 / 3, bound / 3, 3 * 64},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Must(memstore.New(memstore.Options{Subjects: bound}))
			log := storetest.Limit(t, "log", algo.Rate{Algorithm: algo.SlidingLog, Requests: c.requests, Window: time.Hour})
			var known []string
			for i := range bound {
				who := strconv.Itoa(i)
				charges := []limiter.Charge{{Subject: limiter.User(who), Limit: once, Cost: 1}, {Subject: limiter.User(who), Limit: log, Cost: c.first}}
				if _, err := s.Take(ctx, noon, charges[0].Subject, charges, make([]algo.Result, 2)); err == nil {
					known = append(known, who)
				}
			}
			if n := len(known); n < c.least || n > c.most {
				t.Errorf("got %d subjects, want %d to %d", n, c.least, c.most)
			}
			grown := 0
			for _, who := range known {
				if take(t, s, noon, who, log, c.more) == nil {
					grown++
				}
			}
			if want := min(c.entire, len(known)); grown > want || grown < want*8/10 {
				t.Errorf("got %d logs that grew, want %d", grown, want)
			}
		})
	}
}

// A log frees its room when the store removes it or converts it to another algorithm.
func TestStore_full_weightChanges(t *testing.T) {
	s := storetest.Must(memstore.New(memstore.Options{Subjects: 6400}))
	log := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Second})
	window, err := limiter.NewLimit(limiter.Limit{Name: "a", ID: log.ID, Version: log.Version + 1, Rate: algo.Rate{Requests: 300,
		Window: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(now algo.Instant) (held []string) {
		for i := range 6400 {
			if who := strconv.Itoa(int(now)) + "/" + strconv.Itoa(i); take(t, s, now, who, log, 1) == nil {
				held = append(held, who)
			}
		}
		return held
	}
	first := fill(noon)
	for _, who := range first[:len(first)/2] {
		if err := s.Reset(ctx, limiter.User(who)); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range first[len(first)/2:] {
		if err := take(t, s, noon, who, window, 1); err != nil {
			t.Fatal(err)
		}
	}
	if second := fill(noon.Add(1)); len(second) < len(first)*9/10 {
		t.Errorf("got room for %d logs, want %d as before", len(second), len(first))
	}
}

func BenchmarkTake(b *testing.B) {
	l := storetest.Limit(b, "a", algo.Rate{Algorithm: algo.TokenBucket, Requests: 1e9, Window: time.Second})
	s := storetest.Must(memstore.New(memstore.Options{}))
	who := limiter.User("42")
	charges := []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}
	results := make([]algo.Result, 1)
	now := noon
	b.ReportAllocs()
	for b.Loop() {
		now++
		if _, err := s.Take(ctx, now, who, charges, results); err != nil {
			b.Fatal(err)
		}
	}
}

// A full store makes room for new subjects, although a few of its subjects keep their counts for a
// month.
func TestStore_full_longLived(t *testing.T) {
	s := storetest.Must(memstore.New(memstore.Options{Subjects: 6400}))
	long := storetest.Limit(t, "long", algo.Rate{Requests: 1, Window: 30 * 24 * time.Hour, Counts: true})
	short := storetest.Limit(t, "short", algo.Rate{Requests: 1, Window: time.Second, Counts: true})
	for i := range 640 {
		if err := take(t, s, noon, "long"+strconv.Itoa(i), long, 1); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 6 {
		for i := range 3200 {
			now := noon.Add(time.Duration(round) * time.Hour)
			if err := take(t, s, now, strconv.Itoa(round)+"/"+strconv.Itoa(i), short, 1); err != nil {
				t.Fatalf("round %d, subject %d, all short limits are idle: got error %v, want none", round, i, err)
			}
		}
	}
}

func TestNew_options(t *testing.T) {
	s, err := memstore.New(memstore.Options{Subjects: -1})
	if wrong, ok := errors.AsType[*algo.FieldError](err); s != nil || !ok || wrong.Field != "Options.Subjects" {
		t.Errorf("got %v, want an error of Options.Subjects", err)
	}
}
