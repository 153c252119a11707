package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// distant is the store of a region as other processes see it. Its answers take time, or do not come.
type distant struct {
	*region
	delay  time.Duration
	cut    atomic.Bool // no message arrives
	unhear atomic.Bool // messages arrive, and no answer
	debits atomic.Int64
	gave   atomic.Int64 // share that debits took
}

func (f *distant) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (moved int64, err error) {
	f.debits.Add(1)
	if f.cut.Load() {
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	time.Sleep(f.delay)
	moved, err = f.region.Debit(ctx, now, subject, limit, index, lack, seen)
	f.gave.Add(moved)
	if f.unhear.Load() {
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	return moved, err
}

// region is a store that the Limiter treats as shared.
type region struct {
	limiter.Store
	storetest.Patient
	shares  limiter.Shares
	credits atomic.Int64
	fails   atomic.Bool // credits have no answer
}

func (r *region) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (int64, error) {
	return r.shares.Debit(ctx, now, subject, limit, index, lack, seen)
}

func (r *region) Credit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index,
	moved int64) (algo.Result, bool, error) {
	r.credits.Add(1)
	result, credited, err := r.shares.Credit(ctx, now, subject, limit, index, moved)
	if r.fails.Load() {
		return algo.Result{}, false, limiter.ErrUnavailable
	}
	return result, credited, err
}

// federation is a limit of several regions, with a Limiter in each. The messages between regions take 80 ms.
type federation struct {
	limiters []*limiter.Limiter
	limits   []*limiter.Limit
	stores   []*distant
}

func newFederation(t *testing.T, regions int, l limiter.Limit) *federation {
	t.Helper()
	var stores []*distant
	for range regions {
		stores = append(stores, newDistant())
	}
	return federationOf(t, stores, l)
}

func newDistant() *distant {
	store := storetest.Must(memstore.New(memstore.Options{}))
	return &distant{region: &region{Store: store, shares: store}, delay: 80 * time.Millisecond}
}

// federationOf returns the limit of the regions with these stores.
func federationOf(t *testing.T, stores []*distant, l limiter.Limit) *federation {
	t.Helper()
	f := &federation{stores: stores}
	for i := range stores {
		l.Name, l.Rate.Regions.Of, l.Rate.Regions.Place = "a", len(stores), i
		f.limits = append(f.limits, limit(t, l))
	}
	for i := range stores {
		var others []limiter.Shares
		for j, s := range f.stores {
			if j == i {
				others = append(others, nil)
			} else {
				others = append(others, s)
			}
		}
		f.limiters = append(f.limiters, storetest.Must(limiter.New(f.stores[i].region, limiter.Options{Regions: others})))
	}
	return f
}

func (f *federation) take(t *testing.T, i int, now time.Time, cost int64) limiter.Decision {
	t.Helper()
	d, err := f.limiters[i].Take(context.Background(), now, []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[i], Cost: cost}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (f *federation) cut(cut bool) {
	for _, s := range f.stores {
		s.cut.Store(cut)
	}
}

var sharedMinute = limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: time.Minute}}

// A region admits the whole limit if the others admit nothing. A decision within the share makes no call to another
// region, and the answer shows the whole limit.
func TestLimiter_Take_regions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, calls, admitted := newFederation(t, 3, sharedMinute), 0, 0
		for i := range 320 {
			d := f.take(t, 0, noon, 1)
			calls += d.Transfer.Calls
			if i < 100 && calls > 0 {
				t.Fatalf("request %d of a share of 100: got %d calls of other regions, want none", i+1, calls)
			}
			if d.Capacity != 300 {
				t.Fatalf("got capacity %d, want that of the whole limit", d.Capacity)
			}
			if d.Allowed {
				admitted++
			} else if d.RetryAfter <= 0 || d.Failed || d.Reason != limiter.ReasonNone {
				t.Fatalf("request %d: got %+v, want a refusal with a wait", i+1, d)
			}
		}
		if admitted != 300 || calls > 16 {
			t.Errorf("one busy region: got %d admitted with %d calls of other regions, want 300 with at most 16", admitted, calls)
		}
		for i := 1; i < 3; i++ {
			if f.take(t, i, noon, 1).Allowed {
				t.Errorf("region %d: got an admission above the limit, want a refusal", i)
			}
		}
		if next := noon.Add(time.Minute); !f.take(t, 1, next, 100).Allowed {
			t.Error("in the next window: got a refusal within the share, want an admission")
		}
	})
}

// A cost above the base share waits for share of the others.
func TestLimiter_Take_regionsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		if d := f.take(t, 1, noon, 250); !d.Allowed || d.Transfer.Moved < 150 {
			t.Errorf("cost 250 of a base share of 100: got %+v, want an admission", d)
		}
		if d := f.take(t, 1, noon, 301); d.Allowed || d.RetryAfter != 0 || d.Transfer.Calls != 0 {
			t.Errorf("cost above the limit: got %+v, want a refusal without a wait and without calls", d)
		}
	})
}

// Requests of a process that need share wait for one transfer. In a flood, a process asks about once a second.
func TestLimiter_Take_regionsFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		f.take(t, 0, noon, 100)
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if f.take(t, 0, noon, 1).Allowed {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		if calls := f.stores[1].debits.Load(); admitted.Load() != 50 || calls != 1 || f.stores[0].credits.Load() != 1 {
			t.Errorf("50 requests at a time: got %d admitted, %d debits in one region and %d credits, want 50, 1 and 1", admitted.Load(), calls,
				f.stores[0].credits.Load())
		}
		f.take(t, 0, noon, 126) // takes all that moved
		for i := 1; i < 3; i++ {
			f.take(t, i, noon, 12)
		}
		before := f.stores[1].debits.Load()
		for i := range 1000 {
			f.take(t, 0, noon.Add(time.Duration(i)*5*time.Millisecond), 1)
		}
		if calls := f.stores[1].debits.Load() - before; calls < 2 || calls > 7 {
			t.Errorf("a flood of 5 s: got %d debits in one region, want about one a second", calls)
		}
	})
}

// While no region answers, each admits its share. The wait is a second, because the others may have share, and then lasts
// until the window ends, because they are not asked again before. The request is refused, and not decided by OnError.
func TestLimiter_Take_regionsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		f.cut(true)
		f.take(t, 0, noon, 100)
		began := time.Now()
		d := f.take(t, 0, noon, 1)
		if took := time.Since(began); d.Allowed || d.RetryAfter != time.Second || d.Transfer.Lost != 2 || d.Transfer.Failed != 2 ||
			took > limiter.TransferTimeout {
			t.Errorf("cut off: got %+v after %s, want a refusal for a second and two lost debits within %s", d, took, limiter.TransferTimeout)
		}
		if d := f.take(t, 0, noon.Add(2*time.Second), 1); d.Allowed || d.Transfer.Calls != 0 || d.RetryAfter != 58*time.Second {
			t.Errorf("two seconds later: got %+v, want no further debit in this window, and a wait until it ends", d)
		}
		f.cut(false)
		if d := f.take(t, 0, noon.Add(time.Minute), 150); !d.Allowed {
			t.Errorf("in the next window, connected again: got %+v, want an admission", d)
		}
	})
}

// In a long window, a region is asked again a minute after a debit without an answer. Until then, the wait is a second.
func TestLimiter_Take_regionsCutLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMonth)
		f.cut(true)
		f.take(t, 0, noon, 100)
		if d := f.take(t, 0, noon, 1); d.Allowed || d.Transfer.Lost != 2 {
			t.Errorf("cut off: got %+v, want a refusal and two lost debits", d)
		}
		f.cut(false)
		if d := f.take(t, 0, noon.Add(59*time.Second), 1); d.Allowed || d.Transfer.Calls != 0 || d.RetryAfter != time.Second {
			t.Errorf("connected again, 59 s later: got %+v, want a refusal for a second without calls", d)
		}
		if d := f.take(t, 0, noon.Add(61*time.Second), 1); !d.Allowed || d.Transfer.Moved == 0 {
			t.Errorf("61 s later: got %+v, want an admission with moved share", d)
		}
	})
}

// Without its own store, a region admits its base share. After the outage, it gets share of the others as before, although it
// counts on in its memory what the store has not counted. It alone never admits more than the limit.
func TestLimiter_Take_regionsOutage(t *testing.T) {
	for _, lost := range []int{1, 90} {
		synctest.Test(t, func(t *testing.T) {
			stores := []*distant{newDistant(), newDistant(), newDistant()}
			own := &remote{Store: stores[0].Store}
			stores[0].Store = own
			f, now, admitted := federationOf(t, stores, sharedMonth), noon, 0
			take := func(n int) (last limiter.Decision) {
				for range n {
					now = now.Add(1100 * time.Millisecond)
					last = f.take(t, 0, now, 1)
					if last.Allowed {
						admitted++
					}
				}
				return last
			}
			take(20)
			own.before = func(context.Context, limiter.Subject) error { return limiter.ErrUnavailable }
			take(lost)
			own.before = nil
			if want := min(20+lost, 100); admitted != want {
				t.Errorf("%d requests in an outage: got %d admitted, want %d of the base share of 100", lost, admitted, want)
			}
			if d := take(400); admitted != 300 || d.Allowed {
				t.Errorf("%d requests in an outage: got %d admitted in total, want the limit of 300", lost, admitted)
			}
		})
	}
}

// A debit or a credit without an answer is never repeated. What it moved is lost, and nobody admits more.
func TestLimiter_Take_regionsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 2, sharedMinute)
		f.stores[1].unhear.Store(true)
		f.take(t, 0, noon, 150)
		if d := f.take(t, 0, noon, 1); d.Allowed || d.Transfer.Lost != 1 || f.stores[0].credits.Load() != 0 {
			t.Errorf("a debit without an answer: got %+v and %d credits, want a lost debit and no credit", d, f.stores[0].credits.Load())
		}
		if d := f.take(t, 1, noon, 150); d.Allowed {
			t.Errorf("the region that made the debit: got %+v, want less than its base share", d)
		}
		f = newFederation(t, 2, sharedMinute)
		f.stores[0].fails.Store(true)
		f.take(t, 0, noon, 150)
		if d := f.take(t, 0, noon, 1); d.Allowed || d.Transfer.Lost != 1 || f.stores[0].credits.Load() != 1 {
			t.Errorf("a credit without an answer: got %+v and %d credits, want one lost credit", d, f.stores[0].credits.Load())
		}
	})
}

// A transfer is made in the window of the region's item if that is newer than the clock. Otherwise a process with a slow
// clock would debit one window and credit another.
func TestLimiter_Take_regionsSlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, next := newFederation(t, 2, sharedMinute), noon.Truncate(time.Minute).Add(time.Minute)
		f.take(t, 0, next, 150)
		if d := f.take(t, 0, next.Add(-500*time.Millisecond), 150); !d.Allowed || d.Transfer.Moved != 150 {
			t.Errorf("a slow clock: got %+v, want an admission with 150 moved", d)
		}
		if d := f.take(t, 1, next, 1); d.Allowed {
			t.Errorf("the other region in the next window: got %+v, want a refusal", d)
		}
	})
}

// A region without a share is not asked, and asks the others.
func TestLimiter_Take_regionsWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sharedMinute
		l.Rate.Regions.Without = 4
		f := federationOf(t, []*distant{newDistant(), newDistant(), newDistant()}, l)
		if d := f.take(t, 0, noon, 101); !d.Allowed || d.Transfer.Calls != 1 || f.stores[2].debits.Load() != 0 {
			t.Errorf("the last region has no share: got %+v and %d debits there, want an admission with one call and no debit", d,
				f.stores[2].debits.Load())
		}
		if d := f.take(t, 2, noon, 1); !d.Allowed || d.Transfer.Calls != 2 {
			t.Errorf("the region without a share: got %+v, want an admission with two calls", d)
		}
	})
}

// A transfer does not begin if the invocation could end between debit and credit.
func TestLimiter_Take_regionsRemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 2, sharedMinute)
		f.take(t, 0, noon, 150)
		ctx, cancel := context.WithTimeout(context.Background(), limiter.TransferTimeout-time.Millisecond)
		defer cancel()
		d, err := f.limiters[0].Take(ctx, noon, []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[0], Cost: 1}})
		if err != nil || d.Allowed || d.Transfer.Calls != 0 || d.RetryAfter != time.Second {
			t.Errorf("399 ms left: got %+v and error %v, want a refusal for a second without calls", d, err)
		}
	})
}

// Another limit that refuses keeps the request from moving share. A limit with Mark gets share before it reports.
func TestLimiter_Take_regionsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 2, sharedMinute)
		tight := limit(t, limiter.Limit{Name: "tight", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 150, Window: time.Minute}})
		charges := []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[0], Cost: 150}, {Subject: limiter.User("42"), Limit: tight,
			Cost: 150}}
		for i := range 2 {
			d, err := f.limiters[0].Take(context.Background(), noon, charges)
			if err != nil || d.Allowed != (i == 0) || d.Transfer.Calls != 0 {
				t.Errorf("request %d: got %+v and error %v, want allowed %t and no calls of other regions", i, d, err, i == 0)
			}
		}
		soft := limit(t, limiter.Limit{Name: "soft", Mark: true, Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute}})
		f, charges = newFederation(t, 2, sharedMinute), []limiter.Charge{{Subject: limiter.User("42"), Cost: 1}, {Subject: limiter.User("42"),
			Limit: soft, Cost: 1}}
		charges[0].Limit = f.limits[0]
		for i := range 300 {
			if d, err := f.limiters[0].Take(context.Background(), noon, charges); err != nil || !d.Allowed || (d.Over != nil) != (i >= 10) {
				t.Fatalf("request %d beside a limit of 10 with Mark: got %+v and error %v, want an admission", i+1, d, err)
			}
		}
		marked := sharedMinute
		marked.Mark = true
		f = newFederation(t, 2, marked)
		f.take(t, 0, noon, 150)
		if d := f.take(t, 0, noon, 1); !d.Allowed || d.Over != nil || d.Transfer.Moved == 0 {
			t.Errorf("a limit with Mark: got %+v, want an admission within moved share", d)
		}
	})
}

var sharedMonth = limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: 30 * 24 * time.Hour}}

// Requests that wait for a transfer in a long window, which moves little more than the first request lacks, get their share in
// a second one. If there is no time for it, they are refused for a second, and not for the rest of the window.
func TestLimiter_Take_regionsWaiting(t *testing.T) {
	for delay, want := range map[time.Duration]int64{80 * time.Millisecond: 50, 200 * time.Millisecond: 24} {
		synctest.Test(t, func(t *testing.T) {
			f := newFederation(t, 3, sharedMonth)
			for _, s := range f.stores {
				s.delay = delay
			}
			f.take(t, 0, noon, 100)
			var admitted atomic.Int64
			var all sync.WaitGroup
			began := time.Now()
			for range 50 {
				all.Go(func() {
					if d := f.take(t, 0, noon, 1); d.Allowed {
						admitted.Add(1)
					} else if d.RetryAfter != time.Second {
						t.Errorf("%s: got retry after %s, want 1s: other regions have share", delay, d.RetryAfter)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); admitted.Load() != want || took > limiter.TransferTimeout || f.stores[1].debits.Load() > 2 {
				t.Errorf("%s: got %d of 50 admitted after %s and %d debits in one region, want %d within %s and two debits", delay, admitted.Load(),
					took, f.stores[1].debits.Load(), want, limiter.TransferTimeout)
			}
		})
	}
}

// Limits that lack share at the same time get it at the same time. A limit of which the process did not know that it lacks
// share gets it in a second round.
func TestLimiter_Take_regionsSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMonth)
		for _, s := range f.stores {
			s.delay = 250 * time.Millisecond
		}
		charges := []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[0], Cost: 100}}
		for i, name := range []string{"b", "c", "d"} {
			l := sharedMonth
			l.Name, l.Rate.Regions = name, algo.Regions{Of: 3}
			charges = append(charges, limiter.Charge{Subject: limiter.User("42"), Limit: limit(t, l), Cost: 100})
			if i == 2 {
				charges[3].Subject = limiter.User("other")
			}
		}
		take := func(charges []limiter.Charge) (limiter.Decision, time.Duration) {
			began := time.Now()
			d, err := f.limiters[0].Take(context.Background(), noon, charges)
			if err != nil {
				t.Fatal(err)
			}
			return d, time.Since(began)
		}
		take(charges)
		if d, took := take(charges); !d.Allowed || took != 250*time.Millisecond || d.Transfer.Calls != 8 || f.stores[0].credits.Load() != 4 ||
			d.StoreTime != 0 {
			t.Errorf("four limits lack share: got %+v after %s and %d credits, want an admission after one round trip with eight calls", d, took,
				f.stores[0].credits.Load())
		}
		f = newFederation(t, 3, sharedMonth)
		charges = []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[0], Cost: 1}, charges[3]}
		charges[1].Cost = 100
		if _, err := f.stores[0].Take(context.Background(), algo.InstantOf(noon), charges[1].Subject, charges[1:],
			make([]algo.Result, 1)); err != nil {
			t.Fatal(err)
		}
		charges[1].Cost = 1
		f.take(t, 0, noon, 100)
		if d, took := take(charges); !d.Allowed || took != 160*time.Millisecond || d.Transfer.Calls != 4 {
			t.Errorf("a second limit lacks share in the store: got %+v after %s, want an admission after two rounds", d, took)
		}
	})
}

// A limit for which nobody was asked has no long wait, because other regions can have share. A request that needs more than
// all regions have leaves each region some share.
func TestLimiter_Take_regionsUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMonth)
		f.take(t, 0, noon, 100)
		tight := limit(t, limiter.Limit{Name: "tight", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 1, Window: time.Minute}})
		charges := []limiter.Charge{{Subject: limiter.User("42"), Limit: tight, Cost: 1}, {Subject: limiter.User("42"), Limit: f.limits[0],
			Cost: 1}}
		if _, err := f.limiters[0].Take(context.Background(), noon, charges[:1]); err != nil {
			t.Fatal(err)
		}
		d, err := f.limiters[0].Take(context.Background(), noon, charges)
		if err != nil || d.Allowed || d.Limit.Name != "tight" || d.Transfer.Calls != 0 {
			t.Errorf("beside a limit that refuses: got %+v and error %v, want the wait of that limit and no calls", d, err)
		}
		d, err = f.limiters[0].Peek(context.Background(), noon, charges[1:])
		if err != nil || d.RetryAfter != time.Second {
			t.Errorf("a look: got %+v and error %v, want a wait of a second", d, err)
		}
		f = newFederation(t, 3, sharedMinute)
		f.take(t, 0, noon, 20)
		if d := f.take(t, 0, noon, 290); d.Allowed || d.RetryAfter != time.Second || d.Transfer.Moved != 176 {
			t.Errorf("cost 290 of 280 left: got %+v, want a refusal for a second and some share", d)
		}
		if d := f.take(t, 0, noon, 290); d.Transfer.Calls != 0 {
			t.Errorf("again: got %+v, want no call before the pause has passed", d)
		}
		for i := 1; i < 3; i++ {
			if d := f.take(t, i, noon, 12); !d.Allowed || d.Transfer.Calls != 0 {
				t.Errorf("region %d: got %+v, want an admission within its share", i, d)
			}
		}
	})
}

// Options.Regions and the limits have the same list.
func TestNew_regions(t *testing.T) {
	store := storetest.Must(memstore.New(memstore.Options{}))
	for _, regions := range [][]limiter.Shares{{nil}, {nil, nil}, {store, store}} {
		if _, err := limiter.New(store, limiter.Options{Regions: regions}); err == nil {
			t.Errorf("%d stores: got no error, want one", len(regions))
		}
	}
	l := storetest.Must(limiter.New(store, limiter.Options{Regions: []limiter.Shares{nil, store}}))
	other := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 2, Place: 1}}})
	if _, err := l.Take(context.Background(), noon, []limiter.Charge{{Subject: limiter.User("42"), Limit: other, Cost: 1}}); !errors.Is(err,
		limiter.ErrInvalidCharge) {
		t.Errorf("a limit of the other region: got error %v, want ErrInvalidCharge", err)
	}
}

// A process whose refused calls made it pause admits a request as soon as it got share for it.
func TestLimiter_Take_regionsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 2, limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 20, Window: time.Minute}})
		options := limiter.Options{Regions: []limiter.Shares{nil, f.stores[1]}, CacheTTL: 10 * time.Second}
		one, other := storetest.Must(limiter.New(f.stores[0].region, options)), storetest.Must(limiter.New(f.stores[0].region, options))
		charge := func(region int, cost int64) []limiter.Charge {
			return []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[region], Cost: cost}}
		}
		theirs, unused, _ := f.limiters[1].TakeRefundable(t.Context(), noon, charge(1, 10))
		for i := range 5 {
			mustPeek(t, one, noon, charge(0, 0)[0]) // it sees room
			d, receipt, _ := other.TakeRefundable(t.Context(), noon, charge(0, 10))
			if got := takeAt(t, one, noon, charge(0, 1)[0]); !d.Allowed || !theirs.Allowed || got.Allowed {
				t.Fatalf("round %d: got %+v, want a refusal after other requests took both shares", i+1, got)
			}
			if i < 4 {
				receipt.Refund(t.Context(), noon)
			}
		}
		unused.Refund(t.Context(), noon)
		if d := takeAt(t, one, noon.Add(2*time.Second), charge(0, 1)[0]); !d.Allowed || d.StoreCalls != 2 || d.Transfer.Moved == 0 {
			t.Errorf("with share of the other region: got %+v, want an admission by a credit and a charge", d)
		}
	})
}

// While the store of a region fails, a refusal that the process remembers moves no share, because its credit would fail.
func TestLimiter_Take_regionsFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFederation(t, 2, sharedMinute), newRemote()
		store.Store, f.stores[0].Store = f.stores[0].Store, store
		l := storetest.Must(limiter.New(f.stores[0].region, limiter.Options{Regions: []limiter.Shares{nil, f.stores[1]},
			CacheTTL: 10 * time.Second}))
		_, unused, _ := f.limiters[1].TakeRefundable(t.Context(), noon, []limiter.Charge{{Subject: limiter.User("42"), Limit: f.limits[1],
			Cost: 150}})
		c := limiter.Charge{Subject: limiter.User("42"), Limit: f.limits[0], Cost: 150}
		if first, second := takeAt(t, l, noon, c), takeAt(t, l, noon, c); !first.Allowed || second.Allowed { // l remembers the refusal
			t.Fatalf("got %+v and %+v, want an admission and a refusal", first, second)
		}
		unused.Refund(t.Context(), noon)
		store.fail = map[limiter.Subject]error{other: limiter.ErrUnavailable}
		takeAt(t, l, noon, limiter.Charge{Subject: other, Limit: perMinute(t, "b", 1), Cost: 1})
		before := f.stores[1].debits.Load()
		if d := takeAt(t, l, noon.Add(2*time.Second), c); d.Allowed || f.stores[1].debits.Load() != before {
			t.Errorf("the store fails: got %+v and %d debits, want a refusal without debits", d, f.stores[1].debits.Load()-before)
		}
	})
}

// A store of another region that hangs until its context ends delays a decision by DebitTimeout, and costs no answer of the
// others.
func TestLimiter_Take_regionsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		f.stores[2].cut.Store(true)
		began := time.Now()
		if d := f.take(t, 0, noon, 150); !d.Allowed || d.Transfer.Lost != 1 || time.Since(began) != limiter.DebitTimeout {
			t.Errorf("got %+v after %s, want an admission with share of one region after %s", d, time.Since(began), limiter.DebitTimeout)
		}
	})
}

// What follows a transfer has a deadline of its own: charges of other subjects, and refunds. A request that waits for a lease
// does not wait for the share that the renewing request needs too.
func TestLimiter_Take_regionsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 2, sharedMinute)
		f.stores[1].delay = 150 * time.Millisecond
		store := struct {
			limiter.Store
			limiter.Shares
		}{f.stores[0].Store, f.stores[0].shares}
		l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 100 * time.Millisecond, Regions: []limiter.Shares{nil, f.stores[1]}}))
		shared := func(s limiter.Subject) limiter.Charge { return limiter.Charge{Subject: s, Limit: f.limits[0], Cost: 1} }
		out := limiter.Charge{Subject: limiter.User("out"), Limit: tight, Cost: 1}
		third := limiter.User("third")
		leased := limiter.Charge{Subject: third, Cost: 1, Limit: limit(t, limiter.Limit{Name: "b",
			Rate: algo.Rate{Requests: 9, Window: time.Minute}, Spread: limiter.Spread{Lease: 2}})}
		for _, c := range []limiter.Charge{shared(user), shared(other), shared(third)} {
			c.Cost = 150
			takeAt(t, l, noon, c)
		}
		if d := takeAt(t, l, noon, shared(user), limiter.Charge{Subject: other, Limit: tight, Cost: 1}); !d.Allowed || d.Reason != "" {
			t.Errorf("after a transfer: got allowed %t for reason %q, want an admission", d.Allowed, d.Reason)
		}
		_, err := store.Take(ctx, algo.InstantOf(noon), out.Subject, []limiter.Charge{out}, make([]algo.Result, 1))
		if d := takeAt(t, l, noon, shared(other), out); err != nil || d.Limit != tight || d.Refunds.Given != 1 {
			t.Errorf("refused after a transfer: got reason %q and %+v, want a refusal of the limit and a refund; error %v", d.Reason, d.Refunds, err)
		}
		var renewing sync.WaitGroup
		renewing.Go(func() { takeAt(t, l, noon, leased, shared(third)) })
		synctest.Wait()
		if d := takeAt(t, l, noon, leased); !d.Allowed || d.Reason != limiter.ReasonNone {
			t.Errorf("while another request renews the lease and moves share: got allowed %t for reason %q, want an admission", d.Allowed, d.Reason)
		}
		renewing.Wait()
	})
}
