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

// A full store evicts only subjects at full quota. If there are none, it rejects new subjects with
// ErrFull but still serves known subjects.
func TestStore_full(t *testing.T) {
	const subjects = 6400
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	slow := storetest.Limit(t, "slow", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour})
	known, refused := 0, 0
	for i := range 4 * subjects {
		switch err := take(t, s, noon, strconv.Itoa(i), slow, 1); {
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
	if err := take(t, s, noon, "0", slow, 1); err != nil {
		t.Errorf("a known subject in a full store: got error %v, want none", err)
	}
	if err := take(t, s, noon, "looks", slow, 0); err != nil {
		t.Errorf("cost 0 on an unknown subject in a full store: got error %v, want none", err)
	}
	more := []limiter.Charge{{Subject: limiter.User("settled"), Limit: slow, Cost: 1, Force: true}}
	if _, err := s.Settle(ctx, noon, more[0].Subject, more, make([]algo.Result, 1), 0); !errors.Is(err, limiter.ErrFull) {
		t.Errorf("a settlement of a new subject in a full store: got error %v, want %v", err, limiter.ErrFull)
	}
	if err := take(t, s, noon.Add(time.Minute-1), "early", slow, 1); !errors.Is(err, limiter.ErrFull) {
		t.Errorf("a new subject in a full store: got error %v, want %v", err, limiter.ErrFull)
	}
	// A minute later all subjects but one are at full quota, and the store evicts them for new
	// subjects.
	for i := range subjects / 2 {
		if err := take(t, s, noon.Add(time.Minute), "new"+strconv.Itoa(i), slow, 1); err != nil {
			t.Fatalf("new subject %d: got error %v, want none", i, err)
		}
	}
	results := make([]algo.Result, 1)
	charges := []limiter.Charge{{Subject: limiter.User("0"), Limit: slow, Cost: 0}}
	if _, err := s.Take(ctx, noon.Add(time.Minute), charges[0].Subject, charges, results); err != nil {
		t.Fatal(err)
	}
	if left := results[0].Machine.Remaining(results[0].State, noon.Add(time.Minute)); left != 59 {
		t.Errorf("a subject below full quota: got %d of 60 remaining, want its count to stay", left)
	}
}

// A refund, a conversion to a shorter limit, or a clamp can bring a subject to full quota earlier than
// expected. The store then evicts the subject at that earlier time.
func TestStore_full_sooner(t *testing.T) {
	slow := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Hour})
	second := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Second})
	shorter, err := limiter.NewLimit(limiter.Limit{Name: "a", ID: slow.ID, Version: 2, Rate: second.Rate})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		first *limiter.Limit
		at    algo.Instant
		then  func(s *memstore.Store, charges []limiter.Charge, results []algo.Result) error
	}{
		"refund": {slow, noon, func(s *memstore.Store, charges []limiter.Charge, results []algo.Result) error {
			_, err := s.Settle(ctx, 0, charges[0].Subject, charges, results, 0)
			return err
		}},
		"conversion": {slow, noon, func(s *memstore.Store, charges []limiter.Charge, _ []algo.Result) error {
			charges[0].Limit = shorter
			_, err := s.Take(ctx, noon, charges[0].Subject, charges, make([]algo.Result, 1))
			return err
		}},
		"clamp": {second, noon.Add(time.Hour), func(s *memstore.Store, charges []limiter.Charge, _ []algo.Result) error {
			_, err := s.Take(ctx, noon.Add(-time.Minute), charges[0].Subject, charges, make([]algo.Result, 1))
			if err == nil {
				_, err = s.Take(ctx, noon, charges[0].Subject, charges, make([]algo.Result, 1))
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Must(memstore.New(memstore.Options{Subjects: 64}))
			// Each of the 64 shards has room for one subject. With so many attempts, every shard
			// gets a subject.
			fill := func(now algo.Instant, l *limiter.Limit, prefix string, then func(charges []limiter.Charge,
				results []algo.Result)) (admitted int) {
				for i := range 2_560 {
					charges, results := []limiter.Charge{{Subject: limiter.User(prefix + strconv.Itoa(i)), Limit: l, Cost: 1}}, make([]algo.Result, 1)
					if _, err := s.Take(ctx, now, charges[0].Subject, charges, results); err == nil {
						admitted++
						then(charges, results)
					}
				}
				return admitted
			}
			var undo []func() error
			full := fill(c.at, c.first, "old", func(charges []limiter.Charge, results []algo.Result) {
				undo = append(undo, func() error { return c.then(s, charges, results) })
			})
			for _, f := range undo {
				if err := f(); err != nil {
					t.Fatal(err)
				}
			}
			if n := fill(noon.Add(10*time.Second), slow, "new", func([]limiter.Charge, []algo.Result) {}); n < full {
				t.Errorf("got %d new subjects, want at least %d, the number of subjects at full quota", n, full)
			}
		})
	}
}

// The store evicts a subject with all its limits or not at all, even from a table that has grown.
func TestStore_fullOfSeveral(t *testing.T) {
	const subjects = 640
	s := storetest.Must(memstore.New(memstore.Options{Subjects: subjects}))
	short := storetest.Limit(t, "short", algo.Rate{Requests: 10, Window: time.Second, Counts: true})
	long := storetest.Limit(t, "long", algo.Rate{Requests: 10, Window: time.Hour, Counts: true})
	for i := range 4 * subjects { // enough charges to fill every shard
		for _, l := range []*limiter.Limit{short, long}[:1+i%2] {
			if err := take(t, s, noon, strconv.Itoa(i), l, 1); err != nil && !errors.Is(err, limiter.ErrFull) {
				t.Fatal(err)
			}
		}
	}
	held := func(who string) int {
		entries, err := s.Inspect(ctx, limiter.User(who))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := 0
	for i := range 4 * subjects {
		before += held(strconv.Itoa(i))
	}
	if before != subjects {
		t.Fatalf("got %d limits held, want %d", before, subjects)
	}
	later := noon.Add(time.Minute) // the short limits are at full quota
	for i := range 8 * subjects {
		if err := take(t, s, later, "new"+strconv.Itoa(i), long, 1); err != nil && !errors.Is(err, limiter.ErrFull) {
			t.Fatal(err)
		}
	}
	for i := range 4 * subjects {
		if n := held(strconv.Itoa(i)); n != 0 && (i%2 == 0 || n != 2) {
			t.Errorf("subject %d holds %d limits after the sweep, want all or none", i, n)
		}
	}
}

// The bound of a store counts limits and log entries, not only subjects.
func TestStore_full_weight(t *testing.T) {
	const nodes = 6400
	for name, c := range map[string]struct {
		rate       algo.Rate
		each, most int // highest numbers of limits of one subject, and of all subjects together
	}{
		"many limits": {algo.Rate{Requests: 3, Window: time.Hour}, 300, nodes},
		"logs":        {algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Hour}, 1, nodes * 64 / (64 + 600*8)},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Must(memstore.New(memstore.Options{Subjects: nodes}))
			limits := make([]*limiter.Limit, c.each)
			for i := range limits {
				limits[i] = storetest.Limit(t, "l"+strconv.Itoa(i), c.rate)
			}
			held, refused := 0, 0
			for i := range 2 * nodes / c.each {
				for _, l := range limits {
					switch err := take(t, s, noon, strconv.Itoa(i), l, 1); {
					case err == nil:
						held++
					case errors.Is(err, limiter.ErrFull):
						refused++
					default:
						t.Fatal(err)
					}
				}
			}
			if held > c.most || refused == 0 {
				t.Errorf("got %d limits held and %d refused, want at most %d", held, refused, c.most)
			}
			if err := take(t, s, noon, "0", limits[0], 1); err != nil {
				t.Errorf("a limit in the store: got error %v, want none", err)
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
