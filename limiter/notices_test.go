package limiter_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
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
	l := limiter.Limit{Name: "quota", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour},
		Notify: limiter.Percentages{80, 100}}
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

// Notices make no store calls. The request that reaches a percentage writes its notice, once in a window.
func TestNotice_calls(t *testing.T) {
	eighty := []int{80, 100}
	for name, c := range map[string]struct {
		change func(*limiter.Limit)
		want   []int
	}{
		"notify":           {nil, eighty},
		"no notify":        {func(l *limiter.Limit) { l.Notify = limiter.Percentages{} }, nil},
		"shadow":           {func(l *limiter.Limit) { l.Shadow = true }, nil},
		"with mark":        {func(l *limiter.Limit) { l.Mark = true }, eighty},
		"high percentages": {func(l *limiter.Limit) { l.Notify = limiter.Percentages{150} }, nil},
		"instants":         {func(l *limiter.Limit) { l.Rate.Algorithm = algo.SlidingWindow }, eighty},
	} {
		t.Run(name, func(t *testing.T) {
			var got written
			store := newRemote()
			l, quota := storetest.Must(limiter.New(store, limiter.Options{Notify: got.write})), perHour(t, c.change)
			for i := range 12 {
				before := store.takes.Load()
				d := take(t, l, limiter.Charge{Subject: user, Limit: quota, Cost: 1})
				if calls := store.takes.Load() - before; calls > 1 || int64(d.StoreCalls) != calls {
					t.Errorf("request %d: got %d calls and %d in the decision, want at most 1", i+1, calls, d.StoreCalls)
				}
			}
			if !slices.Equal(got.percentages(), c.want) {
				t.Errorf("got notices at %v, want %v", got.percentages(), c.want)
			}
		})
	}
}

// A sliding window at its limit admits one request after the other. Each of them reaches 100 percent again, but only the
// first in a window writes a notice. A refund does not repeat it either.
func TestNotice_sliding(t *testing.T) {
	var got written
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write}))
	quota := limiter.Charge{Subject: user, Cost: 1, Limit: perHour(t, func(l *limiter.Limit) {
		l.Rate.Algorithm,
			l.Rate.Counts = algo.SlidingWindow, true
	})}
	admitted := 0
	for after := time.Duration(0); after < 2*time.Hour; after += time.Minute {
		if d := takeAt(t, l, noon.Add(after), quota); d.Allowed {
			admitted++
		}
	}
	if !slices.Equal(got.percentages(), []int{80, 100, 100}) || admitted < 15 {
		t.Errorf("got notices at %v for %d admissions, want 80 and 100, and 100 in the next hour", got.percentages(), admitted)
	}
	got = nil
	for range 3 {
		_, receipt, err := l.TakeRefundable(ctx, noon.Add(9*time.Hour), []limiter.Charge{{Subject: other, Limit: quota.Limit, Cost: 8}})
		if err != nil {
			t.Fatal(err)
		}
		receipt.Refund(ctx, noon.Add(9*time.Hour))
	}
	if !slices.Equal(got.percentages(), []int{80}) {
		t.Errorf("after refunds: got notices at %v, want 80 once", got.percentages())
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

// During an outage, no notice is written, because the fallback does not know the usage of all processes.
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
	quota, tight := perHour(t, nil), perHour(t, func(l *limiter.Limit) {
		l.Name, l.Notify, l.Rate.Requests = "tight", limiter.Percentages{},
			1
	})
	both := []limiter.Charge{{Subject: user, Limit: quota, Cost: 8}, {Subject: other, Limit: tight, Cost: 1}}
	take(t, over(store, 0), both[1]) // the process that decides both does not know this charge
	if d := take(t, l, both...); d.Allowed || d.Refunds.Given != 1 || len(got) > 0 {
		t.Errorf("got %+v and notices %v, want a denial with a refund, and none", d, got)
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
		if d := takeAt(t, l, noon.Add(time.Duration(i)*time.Minute), limiter.Charge{Subject: user, Limit: perHour(t, nil),
			Cost: 1}); !d.Allowed || !d.Superseded {
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
		takeAt(t, storetest.Must(limiter.New(store, limiter.Options{Notify: got.write})), at, limiter.Charge{Subject: user, Limit: quota,
			Cost: cost})
	}
	charge(noon.Add(-time.Second), 8)
	charge(noon.Add(time.Second), 7)
	charge(noon.Add(-time.Second), 1)
	charge(noon.Add(2*time.Second), 0)
	if len(got) != 2 || got[0].Start != noon.Add(-time.Hour) || got[1].Start != noon || got[1].Used != 8 {
		t.Errorf("got %+v, want one notice for each period", got)
	}
}

// The memory for notices is bounded. A process that has forgotten a subject can repeat a notice with the same ID.
func TestNotice_memory(t *testing.T) {
	var got written
	l, quota := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: got.write, Subjects: 60})), perHour(t, nil)
	for round := range 2 {
		for i := range 50 {
			_, receipt, err := l.TakeRefundable(ctx, noon.Add(time.Duration(round)*time.Minute),
				[]limiter.Charge{{Subject: limiter.User(strconv.Itoa(i)), Limit: quota, Cost: 8}})
			if err != nil {
				t.Fatal(err)
			}
			receipt.Refund(ctx, noon)
		}
	}
	if len(got) != 100 || got[0].ID("a") != got[50].ID("a") {
		t.Errorf("got %d notices, want 100, and the same ID for the same caller", len(got))
	}
}

// A failing Notify fails no request.
func TestNotice_writeFails(t *testing.T) {
	var lines bytes.Buffer
	write := func(context.Context, limiter.Notice) error { return errors.New("no connection") }
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{Notify: write, Logger: slog.New(slog.NewTextHandler(&lines, nil))}))
	if d := take(t, l, limiter.Charge{Subject: user, Limit: perHour(t, nil), Cost: 9}); !d.Allowed || d.Reason != limiter.ReasonNone ||
		!strings.Contains(lines.String(), "no connection") {
		t.Errorf("got %+v and log %q, want a plain decision and the error in the log", d, lines.String())
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
		l := limiter.Limit{Name: "quota", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour},
			Notify: limiter.Percentages{80, 100}}
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
