package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A limit with Mark admits requests that exceed it, and reports them. It charges only the other requests.
// Therefore, it reports exactly the requests that the same limit without Mark would deny.
func TestLimiter_Take_mark(t *testing.T) {
	for name, store := range map[string]limiter.Store{
		"local": storetest.Must(memstore.New(memstore.Options{})), "shared": newRemote(),
	} {
		l := storetest.Must(limiter.New(store, limiter.Options{}))
		soft := limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 2, Window: time.Minute, Algorithm: algo.TokenBucket}, Mark: true})
		softer := limit(t, limiter.Limit{Name: "softer", Rate: algo.Rate{Requests: 4, Window: time.Hour, Algorithm: algo.FixedWindow},
			Mark: true})
		hard := limit(t, limiter.Limit{Name: "hard", Rate: algo.Rate{Requests: 6, Window: time.Minute, Algorithm: algo.FixedWindow}})
		alice, all := limiter.User("alice"), limiter.Global()
		charges := []limiter.Charge{{Subject: alice, Limit: soft, Cost: 1}, {Subject: alice, Limit: softer, Cost: 1},
			{Subject: all, Limit: hard, Cost: 1}}
		for i, want := range []struct {
			allowed   bool
			over      *limiter.Limit
			reported  *limiter.Limit
			remaining int64
		}{
			{true, nil, soft, 1}, {true, nil, soft, 0}, {true, soft, softer, 1}, {true, soft, softer, 0}, {true, softer, hard, 1},
			{true, softer, hard, 0}, {false, nil, hard, 0},
		} {
			d, err := l.Take(t.Context(), noon, charges)
			if err != nil || d.Allowed != want.allowed || d.Over != want.over || d.Limit != want.reported || d.Remaining != want.remaining ||
				d.Allowed && d.RetryAfter != 0 {
				t.Errorf("%s, request %d: got %+v (error %v), want %+v", name, i+1, d, err, want)
			}
		}
		usage, err := l.Inspect(t.Context(), noon, charges)
		if err != nil || usage[0].Remaining != 0 || usage[1].Remaining != 0 || usage[2].Remaining != 0 {
			t.Errorf("%s: usage: got %+v, error %v, want nothing remaining", name, usage, err)
		}
		d, err := l.Take(t.Context(), noon.Add(time.Minute), charges)
		if err != nil || !d.Allowed || d.Over != softer {
			t.Errorf("%s, after a minute: got %+v, error %v, want a request over softer alone", name, d, err)
		}
		d, err = l.Peek(t.Context(), noon.Add(time.Minute), charges[:1])
		if err != nil || !d.Allowed || d.Over != nil || d.Remaining != 1 {
			t.Errorf("%s, peek: got %+v, error %v, want 1 of 2 remaining, because the marked request charged soft", name, d, err)
		}
	}
}

// The decision on a marked request reports another limit, and the store calls of all repeated decisions.
func TestLimiter_Take_markCalls(t *testing.T) {
	rate := func(requests int64) algo.Rate {
		return algo.Rate{Requests: requests, Window: time.Minute, Algorithm: algo.FixedWindow}
	}
	hard := limit(t, limiter.Limit{Name: "hard", Rate: rate(10)})
	for name, c := range map[string]struct {
		soft limiter.Limit
	}{
		"soft has less":           {limiter.Limit{Name: "soft", Rate: rate(5), Mark: true}},
		"hard has less":           {limiter.Limit{Name: "soft", Rate: rate(7), Mark: true}},
		"soft is for all callers": {limiter.Limit{Name: "soft", Rate: rate(5), Mark: true, Global: true}},
	} {
		store, alice, soft := newRemote(), limiter.User("alice"), limit(t, c.soft)
		charges := []limiter.Charge{{Subject: alice, Limit: soft, Cost: 4}, {Subject: alice, Limit: hard, Cost: 4}}
		if d, err := storetest.Must(limiter.New(store, limiter.Options{})).Take(t.Context(), noon, charges); err != nil || d.Over != nil {
			t.Fatalf("%s: got %+v, error %v, want no limit over", name, d, err)
		}
		d, err := storetest.Must(limiter.New(store, limiter.Options{})).Take(t.Context(), noon, charges) // without a denial cache
		if err != nil || !d.Allowed || d.Over != soft || d.Limit != hard || d.Remaining != 2 || d.StoreCalls != 2 {
			t.Errorf("%s: got %+v, error %v, want hard with 2 remaining, after 2 calls", name, d, err)
		}
	}
}

// The decision on a marked request reports a limit that admitted it, except a global limit. If the decision
// reported the limit that marked the request, clients would read that nothing remains.
func TestLimiter_Take_markReported(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	full := limit(t, limiter.Limit{Name: "full", Rate: algo.Rate{Requests: 1, Window: time.Minute, Algorithm: algo.FixedWindow}, Mark: true})
	hard := limit(t, limiter.Limit{Name: "hard", Rate: algo.Rate{Requests: 3, Window: time.Minute, Algorithm: algo.FixedWindow}})
	charges := []limiter.Charge{{Subject: limiter.User("alice"), Limit: full, Cost: 1}, {Subject: limiter.User("alice"), Limit: hard, Cost: 1}}
	for i, want := range []struct {
		over, reported *limiter.Limit
		remaining      int64
	}{{nil, full, 0}, {full, hard, 1}, {full, hard, 0}} {
		d, err := l.Take(t.Context(), noon, charges)
		if err != nil || !d.Allowed || d.Over != want.over || d.Limit != want.reported || d.Remaining != want.remaining {
			t.Errorf("request %d: got %+v, error %v, want %+v", i+1, d, err, want)
		}
	}
}

// The refund of a marked request returns quota only to the limits that charged the request.
func TestLimiter_TakeRefundable_mark(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	soft := limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 1, Window: time.Minute, Algorithm: algo.FixedWindow}, Mark: true})
	hard := limit(t, limiter.Limit{Name: "hard", Rate: algo.Rate{Requests: 3, Window: time.Minute, Algorithm: algo.FixedWindow}})
	charges := []limiter.Charge{{Subject: limiter.User("alice"), Limit: soft, Cost: 1}, {Subject: limiter.User("alice"), Limit: hard, Cost: 1}}
	if d, err := l.Take(t.Context(), noon, charges); err != nil || d.Over != nil {
		t.Fatalf("got %+v, error %v, want no limit over", d, err)
	}
	d, receipt, err := l.TakeRefundable(t.Context(), noon, charges)
	if err != nil || !d.Allowed || d.Over != soft {
		t.Fatalf("got %+v, error %v, want a marked request", d, err)
	}
	if got := receipt.Refund(t.Context(), noon); got != (limiter.Refunds{Given: 1}) {
		t.Errorf("refund: got %+v, want one charge", got)
	}
	if usage, err := l.Inspect(t.Context(), noon, charges); err != nil || usage[0].Remaining != 0 || usage[1].Remaining != 2 {
		t.Errorf("usage: got %+v, error %v, want 0 of soft and 2 of hard", usage, err)
	}
}

// A limit with Mark denies no request, even if its store fails or a request costs more than the limit.
func TestLimiter_Take_markFailure(t *testing.T) {
	r := newRemote()
	r.fail = map[limiter.Subject]error{limiter.User("alice"): limiter.ErrUnavailable}
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	soft := limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 1, Window: time.Minute}, Mark: true, OnError: limiter.OnErrorDeny})
	charges := []limiter.Charge{{Subject: limiter.User("alice"), Limit: soft, Cost: 1}}
	if d, err := l.Take(t.Context(), noon, charges); err != nil || !d.Allowed || d.Over != nil {
		t.Errorf("store failed: got %+v, error %v, want an allowed request", d, err)
	}
	r.fail[limiter.User("alice")] = limiter.ErrContended
	if d, err := l.Take(t.Context(), noon, charges); err != nil || !d.Allowed || d.Over != nil {
		t.Errorf("busy subject: got %+v, error %v, want an allowed request", d, err)
	}
	r.fail[limiter.User("alice")] = limiter.ErrUnavailable
	hard := limit(t, limiter.Limit{Name: "hard", Rate: algo.Rate{Requests: 1, Window: time.Minute}, OnError: limiter.OnErrorDeny})
	both := []limiter.Charge{charges[0], {Subject: limiter.User("alice"), Limit: hard, Cost: 1}}
	if d, err := l.Take(t.Context(), noon, both); err != nil || d.Allowed || !d.Failed || d.StoreCalls != 1 {
		t.Errorf("store failed: got %+v, error %v, want the OnError of hard after one call", d, err)
	}
	l = storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	charges[0].Cost = 2
	if d, err := l.Take(t.Context(), noon, charges); err != nil || !d.Allowed || d.Over != soft {
		t.Errorf("cost above the limit: got %+v, error %v, want a marked request", d, err)
	}
}

// A limit with Mark counts several subjects of a request. If it marks one subject, it charges the others.
func TestLimiter_Take_markSubjects(t *testing.T) {
	for name, store := range map[string]limiter.Store{"local": storetest.Must(memstore.New(memstore.Options{})), "shared": newRemote()} {
		l := quiet(store)
		soft := limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 5, Window: time.Minute, Algorithm: algo.FixedWindow}, Mark: true})
		mine, theirs := limiter.Charge{Subject: user, Limit: soft, Cost: 1}, limiter.Charge{Subject: other, Limit: soft, Cost: 1}
		admissions(t, l, 5, noon, mine)
		for range 3 {
			if d := take(t, l, mine, theirs); !d.Allowed || d.Over != soft {
				t.Errorf("%s: got %+v, want a marked request", name, d)
			}
		}
		if usage, err := l.Inspect(ctx, noon, []limiter.Charge{mine, theirs}); err != nil || usage[0].Remaining != 0 || usage[1].Remaining != 2 {
			t.Errorf("%s: got %+v, error %v, want 0 and 2 remaining", name, usage, err)
		}
	}
}

// touched is a store in which other requests charge the subject user before each refund.
type touched struct {
	*remote
	charge limiter.Charge
}

func (s *touched) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if _, err := s.Store.Take(ctx, now, s.charge.Subject, []limiter.Charge{s.charge}, make([]algo.Result, 1)); err != nil {
		return limiter.Settled{}, err
	}
	return s.remote.Settle(ctx, now, subject, charges, results, elapsed)
}

// A limit with Mark has less room than this process knows. A fast bucket of another subject is charged once for each
// request, because its charge cannot be refunded.
func TestLimiter_Take_markFastBucket(t *testing.T) {
	fast := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "fast", Rate: algo.Rate{Algorithm: algo.TokenBucket,
		Requests: 100, Window: time.Second}})}
	soft := limiter.Charge{Subject: other, Cost: 1, Limit: limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 10,
		Window: time.Minute, Algorithm: algo.FixedWindow}, Mark: true})}
	store := &touched{newRemote(), fast}
	l := quiet(store)
	take(t, l, fast, soft)
	used := soft
	used.Cost = 9
	take(t, quiet(store), used) // another process
	for range 2 {
		if d := take(t, l, fast, soft); !d.Allowed || d.Over != soft.Limit || d.Refunds != (limiter.Refunds{}) {
			t.Errorf("got %+v, want a marked request and no refund", d)
		}
	}
	if usage, err := l.Inspect(ctx, noon, []limiter.Charge{fast}); err != nil || usage[0].Remaining != 97 {
		t.Errorf("got %+v, error %v, want 97 remaining after 3 requests", usage, err)
	}
}

// The store does not answer for the subject of a limit with Mark. The request waits for one timeout, and the limits of
// its other subject decide it.
func TestLimiter_Take_markHangs(t *testing.T) {
	rate := algo.Rate{Requests: 5, Window: time.Minute, Algorithm: algo.FixedWindow}
	hard := limiter.Charge{Subject: other, Cost: 1, Limit: limit(t, limiter.Limit{Name: "hard", Rate: rate})}
	for _, onError := range []limiter.OnError{limiter.OnErrorAllow, limiter.OnErrorDeny, limiter.OnErrorLocal} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			store.before = func(ctx context.Context, s limiter.Subject) error {
				if s != user {
					return nil
				}
				<-ctx.Done()
				return fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
			}
			l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
			soft := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "soft", Rate: rate, Mark: true, OnError: onError})}
			for i := range 2 {
				began := time.Now()
				if d := takeAt(t, l, began, soft, hard); !d.Allowed || d.Over != nil || time.Since(began) != 100*time.Millisecond {
					t.Errorf("OnError %v, request %d: got %+v after %s, want it allowed after 100 ms", onError, i+1, d, time.Since(began))
				}
			}
			if usage, err := l.Inspect(ctx, time.Now(), []limiter.Charge{hard}); err != nil || usage[0].Remaining != 3 {
				t.Errorf("OnError %v: got %+v, error %v, want 3 remaining of hard", onError, usage, err)
			}
		})
	}
}

// While the item of a limit with Mark is throttled, the limit denies no request, with a call or during the pause.
func TestLimiter_Take_markThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soft := limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Requests: 300, Window: time.Hour, Algorithm: algo.SlidingLog}, Mark: true})
		l, p := pressed(t, true, soft)
		p.throttle[user] = -1
		for i := range 3 {
			if d := take(t, l, limiter.Charge{Subject: user, Limit: soft, Cost: 1}); !d.Allowed {
				t.Errorf("request %d: got %+v, want an allowed request", i+1, d)
			}
		}
	})
}
