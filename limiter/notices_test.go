package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

type written []limiter.Notice

func (w *written) write(_ context.Context, n limiter.Notice) error {
	*w = append(*w, n)
	return nil
}

func (w *written) percentages() (all []int) {
	for _, n := range *w {
		all = append(all, n.Percent)
	}
	return all
}

// perHour returns a quota with notices at 80 and 100 percent.
func perHour(t *testing.T, change func(*limiter.Limit)) *limiter.Limit {
	l := limiter.Limit{Name: "quota", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour}, Notify: limiter.Percentages{80, 100}}
	if change != nil {
		change(&l)
	}
	return limit(t, l)
}

// A notice describes the period and the usage. All notices of one percentage and period have the same ID.
func TestNotice(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write}))
	quota := perHour(t, nil)
	at := noon.Add(20 * time.Minute)
	takeAt(t, l, at, limiter.Charge{Subject: user, Limit: quota, Cost: 9})
	want := limiter.Notice{Time: at, Subject: user, Limit: quota, Percent: 80, Used: 9, Capacity: 10, Start: noon, End: noon.Add(time.Hour)}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	later, next := want, want
	later.Time, later.Used = at.Add(time.Minute), 10
	next.Start = noon.Add(time.Hour)
	if id := want.ID("abc"); id != "abc-"+quota.ID.String()+"-1772625600-80" || later.ID("abc") != id || next.ID("abc") == id {
		t.Errorf("got IDs %s, %s later and %s in the next period, want the first two equal", id, later.ID("abc"), next.ID("abc"))
	}
}

// A request makes one store call. A request that crosses a percentage makes two more: one reads the
// flags, and one sets a flag.
func TestNotice_calls(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*limiter.Limit)
		want   []int64 // calls of each request
	}{
		"notify":           {nil, []int64{1, 1, 1, 1, 1, 1, 1, 3, 1, 3, 0, 0}},
		"no notify":        {func(l *limiter.Limit) { l.Notify = limiter.Percentages{} }, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
		"shadow":           {func(l *limiter.Limit) { l.Shadow = true }, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
		"with mark":        {func(l *limiter.Limit) { l.Mark = true }, []int64{1, 1, 1, 1, 1, 1, 1, 3, 1, 3, 0, 0}},
		"high percentages": {func(l *limiter.Limit) { l.Notify = limiter.Percentages{150} }, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var got written
			store := newRemote()
			l, quota := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write})), perHour(t, c.change)
			for i, want := range c.want {
				before := store.takes.Load()
				d := take(t, l, limiter.Charge{Subject: user, Limit: quota, Cost: 1})
				if calls := store.takes.Load() - before; calls != want || int64(d.StoreCalls) != want {
					t.Errorf("request %d: got %d calls and %d in the decision, want %d", i+1, calls, d.StoreCalls, want)
				}
			}
			if n := len(got); n > 0 && !slices.Equal(got.percentages(), []int{80, 100}) {
				t.Errorf("got notices at %v, want 80 and 100", got.percentages())
			}
			if reads := storetest.Must(store.Inspect(ctx, user)); len(reads) > 1 {
				t.Errorf("got %d limits on the subject, want flags on a subject of their own", len(reads))
			}
		})
	}
}

// leastAllocations returns the least allocations of 50 calls of f, because the race detector makes a sync.Pool drop some
// of its values.
func leastAllocations(f func()) float64 {
	least := math.Inf(1)
	for range 50 {
		least = min(least, testing.AllocsPerRun(1, f))
	}
	return least
}

// In a Limiter that writes notices, a limit without Notify causes no extra allocation.
func TestNotice_allocations(t *testing.T) {
	plain := perHour(t, func(l *limiter.Limit) { l.Notify, l.Rate.Requests = limiter.Percentages{}, algo.MaxRequests })
	charges := []limiter.Charge{{Subject: user, Limit: plain, Cost: 1}}
	measure := func(o limiter.Options) float64 {
		l := storetest.Must(limiter.New(newRemote(), o))
		return leastAllocations(func() { _, _ = l.Take(ctx, noon, charges) })
	}
	var got written
	if without, with := measure(limiter.Options{}), measure(limiter.Options{Notify: got.write}); without != with {
		t.Errorf("got %v allocations with notices and %v without, want the same", with, without)
	}
}

// During an outage, no notice is written, because the fallback does not know the usage of all processes. The
// first decisions after the outage write the notice.
func TestNotice_outage(t *testing.T) {
	var got written
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write, Logger: slog.New(slog.DiscardHandler)}))
	quota := limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 1}
	take(t, l, limiter.Charge{Subject: user, Limit: quota.Limit, Cost: 7})
	store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	if d := take(t, l, quota); !d.Allowed || d.Reason == limiter.ReasonNone || len(got) > 0 {
		t.Fatalf("in the outage: got %+v and notices %v, want a decision of the fallback and no notice", d, got)
	}
	store.fail = nil
	take(t, l, quota)
	if !slices.Equal(got.percentages(), []int{80}) {
		t.Errorf("after the outage: got notices at %v, want 80", got.percentages())
	}
}

// If another subject refuses a request, the refunded charge writes no notice, even if it crossed a
// percentage.
func TestNotice_refused(t *testing.T) {
	var got written
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write}))
	quota, tight := perHour(t, nil), perHour(t, func(l *limiter.Limit) { l.Name, l.Notify, l.Rate.Requests = "tight", limiter.Percentages{}, 1 })
	both := []limiter.Charge{{Subject: user, Limit: quota, Cost: 8}, {Subject: other, Limit: tight, Cost: 1}}
	take(t, over(store, 0), both[1]) // the process that decides both does not know this charge
	if d := take(t, l, both...); d.Allowed || d.Refunds.Given != 1 || len(got) > 0 {
		t.Errorf("got %+v and notices %v, want a denial with a refund, and none", d, got)
	}
}

// A flag that cannot be read or set fails no request. A later request writes the notice.
func TestNotice_flagFails(t *testing.T) {
	var got written
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write, Logger: slog.New(slog.DiscardHandler)}))
	quota := limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 9}
	store.fail = map[limiter.Subject]error{limiter.FlagsOf(user): limiter.ErrUnavailable}
	if d := take(t, l, quota); !d.Allowed || d.Reason != limiter.ReasonNone || len(got) > 0 {
		t.Fatalf("got %+v and notices %v, want a plain decision and none", d, got)
	}
	store.fail = nil
	quota.Cost = 0
	takeAt(t, l, noon.Add(9*time.Second), quota)
	if len(got) > 0 {
		t.Fatalf("in the grace time: got notices at %v, want none", got.percentages())
	}
	takeAt(t, l, noon.Add(10*time.Second), quota)
	takeAt(t, l, noon.Add(30*time.Second), quota)
	if !slices.Equal(got.percentages(), []int{80}) {
		t.Errorf("got notices at %v, want 80 once", got.percentages())
	}
}

// If Notify returns an error, no flag is set, and a later request writes the notice.
func TestNotice_writeFails(t *testing.T) {
	var got written
	fails := true
	write := func(ctx context.Context, n limiter.Notice) error {
		if fails {
			return errors.New("no connection")
		}
		return got.write(ctx, n)
	}
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: write, Logger: slog.New(slog.DiscardHandler)}))
	quota := limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 9}
	take(t, l, quota)
	fails, quota.Cost = false, 0
	for _, after := range []time.Duration{10 * time.Second, time.Minute} {
		takeAt(t, l, noon.Add(after), quota)
	}
	if !slices.Equal(got.percentages(), []int{80}) {
		t.Errorf("got notices at %v, want 80 once", got.percentages())
	}
}

// The clock of a process is set back. The process writes a missing notice without waiting until the clock shows the
// earlier time again.
func TestNotice_clockBack(t *testing.T) {
	var got written
	store, quota := newRemote(), limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8}
	takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon, quota) // its notice is missing
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write}))
	quota.Cost = 0
	takeAt(t, l, noon.Add(30*time.Minute), quota)
	takeAt(t, l, noon.Add(10*time.Minute), quota)
	if !slices.Equal(got.percentages(), []int{80}) {
		t.Errorf("got notices at %v, want 80", got.percentages())
	}
}

// Newer rules, with other numbers and without notices, decide the charges. A process with the older rules writes no
// notice.
func TestNotice_superseded(t *testing.T) {
	var got written
	store, newer := newRemote(), perHour(t, func(l *limiter.Limit) { l.Version, l.Rate.Requests, l.Notify = 2, 100, limiter.Percentages{} })
	takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon, limiter.Charge{Subject: user, Limit: newer, Cost: 85})
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write, Logger: slog.New(slog.DiscardHandler)}))
	for i := range 3 {
		if d := takeAt(t, l, noon.Add(time.Duration(i)*time.Minute), limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 1}); !d.Allowed || !d.Superseded {
			t.Fatalf("got %+v, want it allowed by newer rules", d)
		}
	}
	if len(got) > 0 {
		t.Errorf("got notices at %v, want none", got.percentages())
	}
}

// Peek writes no notice.
func TestNotice_peek(t *testing.T) {
	var got written
	store, quota := newRemote(), limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8}
	takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon, quota) // its notice is missing
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write}))
	for i := range 3 {
		if _, err := l.Peek(ctx, noon.Add(time.Duration(i)*time.Minute), []limiter.Charge{quota}); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) > 0 {
		t.Errorf("got notices at %v, want none", got.percentages())
	}
}

// A denied request charges nothing, so it crosses no percentage. But another request may have crossed one, and
// its notice may be missing. A denied request writes this notice after noticeGrace.
func TestNotice_denied(t *testing.T) {
	var got written
	store, quota := newRemote(), limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8}
	takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon, quota) // this process writes no notice
	l := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write}))
	for after, want := range []int{0, 0, 1} {
		if d := takeAt(t, l, noon.Add(time.Duration(after)*9*time.Second), quota); d.Allowed || len(got) != want {
			t.Errorf("after %d s: got allowed %t and %d notices, want a denial and %d", after*9, d.Allowed, len(got), want)
		}
	}
}

// Other requests charge the limit between a Take and its settlement. Only with these charges does the
// settlement cross a percentage. The settlement then writes the notice.
func TestNotice_settledWithOthers(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write}))
	quota := limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 6}
	_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{quota})
	if err != nil {
		t.Fatal(err)
	}
	quota.Cost = 1
	take(t, l, quota)
	receipt.Settle(ctx, noon, func(limiter.Charge) int64 { return 7 })
	if !slices.Equal(got.percentages(), []int{80}) || got[0].Used != 8 {
		t.Errorf("got %+v, want the notice at 8", got)
	}
}

// A process whose clock is behind the period of the store writes the notices of that period.
func TestNotice_slowClock(t *testing.T) {
	var got written
	store := newRemote()
	quota := perHour(t, nil)
	charge := func(at time.Time, cost int64) {
		takeAt(t, storetest.Must(limiter.New(store, limiter.Options{Notify: got.write})), at, limiter.Charge{Subject: user, Limit: quota, Cost: cost})
	}
	charge(noon.Add(-time.Second), 8)
	charge(noon.Add(time.Second), 7)
	charge(noon.Add(-time.Second), 1)
	charge(noon.Add(2*time.Second), 0)
	if len(got) != 2 || got[0].Start != noon.Add(-time.Hour) || got[1].Start != noon || got[1].Used != 8 {
		t.Errorf("got %+v, want one notice for each period", got)
	}
}

// lateStore delays the answer to forced charges of user.
type lateStore struct{ *remote }

func (s lateStore) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	taken, err := s.remote.Take(ctx, now, subject, charges, results)
	if subject == user && charges[0].Force {
		time.Sleep(100 * time.Millisecond)
	}
	return taken, err
}

// The answer to a charge of an ended period arrives after a notice of the next period. It writes no notice, and the
// process still knows the flags of the next period.
func TestNotice_endedPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got written
		store := lateStore{newRemote()}
		l, quota := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write})), perHour(t, nil)
		charge := func(after time.Duration, cost int64, force bool) {
			takeAt(t, l, noon.Add(after), limiter.Charge{Subject: user, Limit: quota, Cost: cost, Force: force})
		}
		var late sync.WaitGroup
		late.Go(func() { charge(-time.Second, 8, true) })
		synctest.Wait()
		charge(time.Second, 9, false)
		late.Wait()
		if len(got) != 1 || !got[0].Start.Equal(noon) {
			t.Fatalf("got notices %+v, want one of the hour from noon", got)
		}
		store.takes.Store(0)
		charge(2*time.Second, 0, false)
		charge(time.Minute, 0, false)
		if calls := store.takes.Load(); calls != 2 || len(got) != 1 {
			t.Errorf("two later requests: got %d calls and notices %+v, want 2 calls and no other notice", calls, got)
		}
	})
}

// The memory for notices is bounded. If a process forgets a subject, the subject causes no second notice.
func TestNotice_memory(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{Notify: got.write, Subjects: 60}))
	quota := perHour(t, nil)
	for round := range 3 {
		for i := range 50 {
			takeAt(t, l, noon.Add(time.Duration(round)*time.Minute), limiter.Charge{Subject: limiter.User(strconv.Itoa(i)), Limit: quota, Cost: 10 - min(int64(round), 1)*10})
		}
	}
	if n := l.NoticesKnown(); n != 20 || len(got) != 100 { // two notices each of 10 callers
		t.Errorf("got %d remembered notices and %d written ones, want 20 and 100", n, len(got))
	}
}

// Notify is valid for limits without Spread whose window is at least a minute.
func TestNewLimit_notify(t *testing.T) {
	for name, change := range map[string]func(*limiter.Limit){
		"zero first":  func(l *limiter.Limit) { l.Notify = limiter.Percentages{0, 80} },
		"gap":         func(l *limiter.Limit) { l.Notify = limiter.Percentages{50, 0, 80} },
		"negative":    func(l *limiter.Limit) { l.Notify = limiter.Percentages{-1} },
		"too high":    func(l *limiter.Limit) { l.Notify = limiter.Percentages{201} },
		"huge":        func(l *limiter.Limit) { l.Notify = limiter.Percentages{math.MaxInt} },
		"unsorted":    func(l *limiter.Limit) { l.Notify = limiter.Percentages{90, 80} },
		"twice":       func(l *limiter.Limit) { l.Notify = limiter.Percentages{80, 80} },
		"short":       func(l *limiter.Limit) { l.Rate.Window = 59 * time.Second },
		"bucket":      func(l *limiter.Limit) { l.Rate.Algorithm = algo.TokenBucket },
		"leaky":       func(l *limiter.Limit) { l.Rate.Algorithm = algo.LeakyBucket },
		"log":         func(l *limiter.Limit) { l.Rate.Algorithm = algo.SlidingLog },
		"with lease":  func(l *limiter.Limit) { l.Spread.Lease = 2 },
		"with shards": func(l *limiter.Limit) { l.Spread.Shards = 2 },
	} {
		l := limiter.Limit{Name: "quota", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour}, Notify: limiter.Percentages{80, 100}}
		change(&l)
		_, err := limiter.NewLimit(l)
		if field, ok := errors.AsType[*algo.FieldError](err); !ok || field.Field != "notify" {
			t.Errorf("%s: got error %v, want one of the field notify", name, err)
		}
	}
	for _, valid := range []limiter.Percentages{{1}, {50, 80, 100, 150, 200}} {
		perHour(t, func(l *limiter.Limit) { l.Notify, l.Rate.Window = valid, limiter.MinNotifyWindow })
	}
	perHour(t, func(l *limiter.Limit) { l.LocalProcesses = 5 })
}

// All notices of a decision or settlement have one deadline, which is Options.Timeout after the first one is due.
func TestNotice_deadline(t *testing.T) {
	var charges []limiter.Charge
	for i := range 5 {
		charges = append(charges, limiter.Charge{Subject: user, Cost: 4, Limit: perHour(t, func(l *limiter.Limit) { l.Name = "quota" + strconv.Itoa(i) })})
	}
	hang := func(ctx context.Context, _ limiter.Notice) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, newStore := range map[string]func() limiter.Store{
		"shared": func() limiter.Store { return newRemote() },
		"local":  func() limiter.Store { return storetest.Must(memstore.New(memstore.Options{})) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := storetest.Must(limiter.New(newStore(), limiter.Options{Timeout: 100 * time.Millisecond, Notify: hang, Logger: slog.New(slog.DiscardHandler)}))
				_, receipt, err := l.TakeRefundable(ctx, time.Now(), charges)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				receipt.Settle(ctx, began, func(limiter.Charge) int64 { return 8 }) // 80 % of each limit
				if took := time.Since(began); took != 100*time.Millisecond {
					t.Errorf("settlement: took %s, want 100 ms", took)
				}
				began = time.Now()
				next := slices.Clone(charges)
				for i := range next {
					next[i].Cost = 2
				}
				takeAt(t, l, began, next...)
				if took := time.Since(began); took != 100*time.Millisecond {
					t.Errorf("decision: took %s, want 100 ms", took)
				}
			})
		})
	}
}

// pause waits until the time has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A slow call of the store takes no time from the notices: they have Options.Timeout for themselves, and add at most
// that to a decision or settlement.
func TestNotice_slow(t *testing.T) {
	for _, writer := range []time.Duration{35 * time.Millisecond, 65 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var got written
			write := func(ctx context.Context, n limiter.Notice) error {
				if err := pause(ctx, writer); err != nil {
					return err
				}
				return got.write(ctx, n)
			}
			store := newRemote()
			store.before = func(ctx context.Context, _ limiter.Subject) error {
				if err := pause(ctx, 30*time.Millisecond); err != nil {
					return fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
				}
				return nil
			}
			l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 100 * time.Millisecond, Notify: write, Logger: slog.New(slog.DiscardHandler)}))
			quota := limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8}
			began := time.Now()
			takeAt(t, l, began, quota)
			if took, want := time.Since(began), 30*time.Millisecond+min(30*time.Millisecond+writer+30*time.Millisecond, 100*time.Millisecond); len(got) != 1 || took != want {
				t.Errorf("writer of %s: got notices at %v after %s, want one after %s", writer, got.percentages(), took, want)
			}
			quota.Cost = 0
			takeAt(t, l, began.Add(noticeRepeats), quota)
			if flagged := writer < 40*time.Millisecond; flagged != (len(got) == 1) {
				t.Errorf("writer of %s: got %d notices, want a second one only if the flag of the first is missing", writer, len(got))
			}
		})
	}
}

// noticeRepeats is the time after which a process repeats a notice without a flag.
const noticeRepeats = 10 * time.Second

// New rules replace a window by a period with a lower number, and change the percentages. The new period has notices
// of its own.
func TestNotice_windowChanges(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write}))
	daily := perHour(t, func(l *limiter.Limit) {
		l.Version, l.Notify = 1, limiter.Percentages{50, 80}
		l.Rate = algo.Rate{Calendar: algo.Calendar{Period: algo.Day}, Requests: 20}
	})
	take(t, l, limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8})
	take(t, l, limiter.Charge{Subject: user, Limit: daily, Cost: 8}) // the store converts the 8 of the hour
	if !slices.Equal(got.percentages(), []int{80, 50, 80}) {
		t.Errorf("got notices at %v, want 80 of the hour, and 50 and 80 of the day", got.percentages())
	}
}

// New rules change the percentages of a limit. The notices of one percentage are not those of another.
func TestNotice_percentagesChange(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write}))
	take(t, l, limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 8})
	more := perHour(t, func(l *limiter.Limit) { l.Notify = limiter.Percentages{90, 100} })
	take(t, l, limiter.Charge{Subject: user, Limit: more, Cost: 1})
	if !slices.Equal(got.percentages(), []int{80, 90}) {
		t.Errorf("got notices at %v, want 80 and 90", got.percentages())
	}
}
