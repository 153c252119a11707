package fallback

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/table"
)

func limitOf(tb testing.TB, rate algo.Rate) *domain.Limit {
	tb.Helper()
	l, err := domain.NewLimit(domain.Limit{Name: "a", Rate: rate})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func slotsOf(tb testing.TB, requests int64, window time.Duration) *domain.Limit {
	tb.Helper()
	l, err := domain.NewLimit(domain.Limit{Name: "slots", Rate: algo.Rate{Requests: requests, Window: window},
		Count: domain.Count{Of: domain.CountConcurrent}})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// settle makes one correction, and returns the number of refunds.
func settle(f *Counts, now algo.Instant, subject domain.Subject, charges []domain.Charge, charged []algo.Result, elapsed time.Duration,
	seen func() (algo.Result, bool)) (given int) {
	charges[0].Subject = subject
	if _, ok := f.Settle(now, charges[0], charged[0], elapsed, seen); ok {
		given++
	}
	return given
}

func hourly(tb testing.TB) *domain.Limit {
	tb.Helper()
	return limitOf(tb, algo.Rate{Requests: 10, Window: time.Hour})
}

// fallbackOf returns a fallback with room for a number of subjects.
func fallbackOf(subjects int) *Counts {
	return New(table.New(subjects * 6 / 5))
}

// While take and settle call the function seen, Holds must wait for their lock. Without the wait, Holds could
// report that nothing is held.
func TestCounts_Holds_waits(t *testing.T) {
	f, limit := fallbackOf(10), hourly(t)
	held := false
	if _, err := f.Take(0, domain.User("user"), []domain.Charge{{Limit: limit, Cost: 1}}, make([]algo.Result, 1),
		func() { held = f.Holding.Load() > 0 }); err != nil {
		t.Fatal(err)
	}
	if !held {
		t.Error("Holds during take: got a result at once, want Holds to wait for the lock")
	}
	f.Reset(domain.User("user"))
	held = false
	settle(f, 0, domain.User("user"), []domain.Charge{{Limit: limit, Cost: 1, Force: true}}, make([]algo.Result, 1), 0,
		func() (algo.Result, bool) {
			held = f.Holding.Load() > 0
			return algo.Result{}, false
		})
	if !held {
		t.Error("Holds during Settle: got a result at once, want Holds to wait for the lock")
	}
	f.Reset(domain.User("user"))
	if f.Holding.Load() != 0 {
		t.Errorf("got %d subjects held, want none", f.Holding.Load())
	}
}

// A debt of a settlement counts until it has expired. The entries that a settlement adds to a log or
// removes from it change the weight of the subject.
func TestCounts_settle(t *testing.T) {
	bucket := limitOf(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute})
	entries := limitOf(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Hour})
	const now = algo.Instant(time.Hour)
	f, results := fallbackOf(10), make([]algo.Result, 1)
	charge := func(l *domain.Limit, cost int64, force bool) []domain.Charge {
		return []domain.Charge{{Limit: l, Cost: cost, Force: force}}
	}
	if _, err := f.Take(now, domain.User("bucket"), charge(bucket, 10, false), results, func() {}); err != nil {
		t.Fatal(err)
	}
	settle(f, now, domain.User("bucket"), charge(bucket, 40, true), results, 0, nil)
	if !f.Holds(now.Add(49 * time.Second)) {
		t.Error("a bucket with a debt of 50 s: got nothing held after 49 s, want the debt")
	}
	if f.Holds(now.Add(50 * time.Second)) {
		t.Error("a bucket with a debt of 50 s: got the debt held after 50 s, want nothing held")
	}
	if _, err := f.Take(now, domain.User("log"), charge(entries, 200, false), results, func() { results[0] = algo.Result{} }); err != nil {
		t.Fatal(err)
	}
	settle(f, now, domain.User("log"), charge(entries, 150, false), results, 0, nil)
	if f.Room(now, 1) || !f.Room(now, 2) {
		t.Error("after a refund: got another weight than 1, that of 50 entries")
	}
	settle(f, now, domain.User("log"), charge(entries, 250, true), results, 0, nil)
	if f.Room(now, 5) || !f.Room(now, 6) {
		t.Error("after a charge: got another weight than 5, that of 300 entries")
	}
}

// After an outage, the fallback gives a slot the number that the store gave it. So it finds that the store counts all
// slots, and a release of the slot in the store also releases it here.
func TestCounts_mirror_slots(t *testing.T) {
	const now = algo.Instant(time.Hour)
	slots := slotsOf(t, 3, time.Minute)
	f, charges := fallbackOf(10), []domain.Charge{{Limit: slots, Cost: 1}}
	local := make([]algo.Result, 1)
	if _, err := f.Take(now, domain.User("a"), charges, local, func() {}); err != nil {
		t.Fatal(err)
	}
	stored, _ := slots.Machine().Take(algo.State{Newest: 500}, now, 1)
	mirrored := []algo.Result{{Machine: slots.Machine(), State: stored}}
	if !f.Mirror(now, domain.User("a"), charges, mirrored) || mirrored[0].State.Entries.Len() != 2 {
		t.Fatalf("got %+v, want two slots", mirrored)
	}
	settle(f, now, domain.User("a"), charges, local, 0, nil)
	f.Drop(domain.User("a"), charges, []algo.Result{{Machine: slots.Machine(), State: stored}})
	if f.Of(domain.User("a")).Counts != nil {
		t.Errorf("got %+v, want nothing held: the store counts the slot too", f.Of(domain.User("a")).Counts)
	}
}

// The fallback gives its slots numbers that no slot of the store has, even in the same millisecond, and even after
// the fallback repeated a charge of the store. So the slots of both count until they are released. No number is used
// again.
func TestCounts_slotNumbers(t *testing.T) {
	const now = algo.Instant(time.Hour + 123)
	slots := slotsOf(t, 10, time.Minute)
	f, charges := fallbackOf(10), []domain.Charge{{Limit: slots, Cost: 1}}
	take := func(subject string) algo.State {
		t.Helper()
		results := make([]algo.Result, 1)
		if taken, _ := f.Take(now, domain.User(subject), charges, results, func() {}); !taken {
			t.Fatal("a charge in an outage: got a refusal, want an admission")
		}
		return results[0].State
	}
	stored, _ := slots.Machine().Take(algo.State{}, now, 1) // the answer of this charge is lost
	charged := take("a")
	for i := range 3 {
		take("a")
		stored, _ = slots.Machine().Take(stored, now, 1)
		mirrored := []algo.Result{{Machine: slots.Machine(), State: stored}}
		if !f.Mirror(now, domain.User("a"), charges, mirrored) || mirrored[0].Remaining(now) != int64(7-2*i) {
			t.Fatalf("charge %d of the store: got %d slots free, want %d", i, mirrored[0].Remaining(now), 7-2*i)
		}
	}
	for i := range 3 { // only the first release frees a slot
		settle(f, now, domain.User("a"), charges, []algo.Result{{Machine: slots.Machine(), State: charged}}, 0, nil)
		if got := slots.Machine().Remaining(take("a"), now); got != int64(3-i) {
			t.Errorf("a charge after release %d: got %d slots free, want %d", i, got, 3-i)
		}
	}
}

// Lost settlements of new subjects fill half of the fallback. The other half is left for the requests of an outage.
func TestCounts_settle_room(t *testing.T) {
	f, limit := fallbackOf(10), hourly(t)
	for i := range 20 {
		settle(f, 0, domain.User(fmt.Sprint("settled", i)), []domain.Charge{{Limit: limit, Cost: 5, Force: true}}, make([]algo.Result, 1), 0,
			func() (algo.Result, bool) { return algo.Result{}, false })
	}
	taken := 0
	for i := range 20 {
		if _, err := f.Take(0, domain.User(fmt.Sprint("taken", i)), []domain.Charge{{Limit: limit, Cost: 5}}, make([]algo.Result, 1),
			func() {}); err == nil {
			taken++
		}
	}
	if taken != 5 {
		t.Errorf("got room for %d subjects, want 5", taken)
	}
}

// A full fallback evicts the longest unused subjects that are below half of all their limits, and none if there is none. A
// refused charge and a settlement of a new subject are uses.
func TestCounts_evict(t *testing.T) {
	const room, flood = 2000, 10_000
	f, limit := fallbackOf(room), hourly(t)
	take := func(i int, now algo.Instant, cost int64) error {
		_, err := f.Take(now, domain.User(fmt.Sprint(i)), []domain.Charge{{Limit: limit, Cost: cost}}, make([]algo.Result, 1), func() {})
		return err
	}
	holds := func(i int) bool { return f.HoldsSubject(domain.User(fmt.Sprint(i))) }
	now := algo.Instant(room)
	settle(f, now, domain.User("0"), []domain.Charge{{Limit: limit, Cost: 4, Force: true}}, make([]algo.Result, 1), 0,
		func() (algo.Result, bool) { return algo.Result{}, false })
	for i := 1; i < room; i++ {
		if err := take(i, algo.Instant(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	const half, refused = 1, 2
	_, _ = take(half, now, 4), take(refused, now+1, 10)
	if holds(half+room) || !holds(refused) {
		t.Fatal("before the flood: got another subject held")
	}
	gone := func(i int) int { // the subject that goes for new subject i of the flood
		switch {
		case i < room-3:
			return i + 3
		case i == room-3:
			return 0
		case i == room-2:
			return refused
		default:
			return i + 1
		}
	}
	for i := range flood {
		if i == room-2 && !holds(refused) {
			t.Fatal("got a subject evicted before those that were unused for longer")
		}
		if err := take(room+i, now.Add(time.Millisecond*time.Duration(1+i)/4), 1); err != nil || holds(gone(i)) ||
			!holds(half) || !holds(gone(i+1)) {
			t.Fatalf("new subject %d: got error %v, subject %d held: %t, next %t; want the longest unused one to go", i, err, gone(i),
				holds(gone(i)), holds(gone(i+1)))
		}
	}
	if n := f.Evicted.Take(); n != flood || f.Holding.Load() != room {
		t.Errorf("got %d evicted and %d held, want %d and %d", n, f.Holding.Load(), flood, room)
	}
	// Exactly one subject is light: it goes. Then all are heavy.
	now = now.Add(time.Minute)
	for i := range flood {
		if one := flood + room/2; i != one-room && holds(room+i) {
			_ = take(room+i, now, 5)
		}
	}
	if err := take(-1, now, 5); err != nil || holds(flood+room/2) || f.Evicted.Take() != 1 {
		t.Errorf("one subject below half: got error %v, want it evicted", err)
	}
	if err := take(-2, now.Add(time.Minute), 1); !errors.Is(err, domain.ErrFull) || f.Holding.Load() != room {
		t.Errorf("all above half: got error %v and %d held, want %v and %d", err, f.Holding.Load(), domain.ErrFull, room)
	}
}

// Subjects that are again at full quota go first, and are not counted.
func TestCounts_evict_fullQuota(t *testing.T) {
	const now = algo.Instant(time.Hour + 900*time.Millisecond)
	f, second := fallbackOf(2), limitOf(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Second})
	for i, c := range []domain.Charge{{Limit: hourly(t), Cost: 1}, {Limit: second, Cost: 9}, {Limit: second, Cost: 1}} {
		f.Room(now, 1)
		if _, err := f.Take(now.Add(time.Duration(i)*50*time.Millisecond), domain.User(fmt.Sprint(i)), []domain.Charge{c},
			make([]algo.Result, 1), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.Evicted.Take(); n != 0 || !f.HoldsSubject(domain.User("0")) {
		t.Errorf("got %d evicted, want only the subject at full quota to go", n)
	}
}

// A log of 512 bytes counts as a further subject: the bound is that of the memory. Without a log, each subject counts
// once.
func TestCounts_room_logs(t *testing.T) {
	const now, subjects = algo.Instant(time.Hour), 30
	entries := limitOf(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Hour})
	for cost, want := range map[int64]int64{1: 30, 63: 30, 64: 15, 127: 15, 128: 10, 300: 6} {
		f := fallbackOf(subjects)
		for i := range 2 * subjects {
			_, _ = f.Take(now, domain.User(fmt.Sprint(i)), []domain.Charge{{Limit: entries, Cost: cost}}, make([]algo.Result, 1), func() {})
		}
		if held := f.Holding.Load(); held != want {
			t.Errorf("logs of %d entries: got room for %d subjects, want %d", cost, held, want)
		}
	}
}

// 50,000 subjects of one limit use the memory that DefaultSubjects states.
func TestCounts_memory(t *testing.T) {
	const subjects = 50_000
	f, charges := fallbackOf(subjects), []domain.Charge{{Limit: hourly(t), Cost: 1}}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range subjects {
		if taken, err := f.Take(0, domain.User(fmt.Sprintf("weir:v1:user:%030d", i)), charges, make([]algo.Result, 1), func() {}); !taken ||
			err != nil {
			t.Fatalf("subject %d: got taken %t and error %v, want true and none", i, taken, err)
		}
	}
	mb := float64(heap()-before) / 1e6
	runtime.KeepAlive(f)
	t.Logf("%.1f MB", mb)
	if mb < 5 || mb > 25 {
		t.Errorf("got %.1f MB for %d subjects, want 5 to 25: correct DefaultSubjects' comment", mb, subjects)
	}
}

// A charge has leaked almost completely when a request with a slightly later instant uses the bucket. Its refund
// returns nothing, because that request no longer profits from it.
func TestCounts_settle_margin(t *testing.T) {
	bucket := limitOf(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute})
	const now = algo.Instant(time.Hour)
	f, charged, results := fallbackOf(10), make([]algo.Result, 1), make([]algo.Result, 1)
	one := []domain.Charge{{Limit: bucket, Cost: 1}}
	if _, err := f.Take(now, domain.User("user"), one, charged, func() {}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Take(now.Add(1001*time.Millisecond), domain.User("user"), one, results, func() {}); err != nil {
		t.Fatal(err)
	}
	if given := settle(f, now.Add(990*time.Millisecond), domain.User("user"), one, charged, 990*time.Millisecond, nil); given != 0 {
		t.Errorf("got %d refunds, want none", given)
	}
}

// A subject whose counts were dropped needs room like a new one, even if the process keeps something else of it.
func TestCounts_Drop_room(t *testing.T) {
	f, charges := fallbackOf(2), []domain.Charge{{Limit: hourly(t), Cost: 5}}
	row := f.Open(domain.User("0"))
	row.Noticed = []table.Noticed{{}}
	f.Changed(row)
	for i, want := range []error{nil, nil, nil, domain.ErrFull} {
		results := make([]algo.Result, 1)
		if _, err := f.Take(0, domain.User(fmt.Sprint(i%3)), charges, results, func() {}); !errors.Is(err, want) {
			t.Errorf("charge %d: got error %v, want %v", i, err, want)
		}
		if i == 0 {
			f.Drop(domain.User("0"), charges, results)
		}
	}
	charges[0].Force = true
	settle(f, 0, domain.User("0"), charges, make([]algo.Result, 1), 0, func() (algo.Result, bool) { return algo.Result{}, false })
	if f.HoldsSubject(domain.User("0")) {
		t.Error("a settlement without room: got counts of the subject, want none")
	}
}
