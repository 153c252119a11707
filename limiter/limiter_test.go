package limiter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx   = context.Background()
	noon  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	user  = limiter.User("42")
	other = limiter.User("43")
)

type key struct{}

// remote is a store in memory that the Limiter treats as shared. It counts its calls, and fails for chosen
// subjects.
type remote struct {
	limiter.Store
	takes, refunds atomic.Int64
	fail           map[limiter.Subject]error
	before         func(ctx context.Context, s limiter.Subject) error // called before each Take; its error replaces the answer

	mu    sync.Mutex
	hints []algo.Result // results that the Limiter passed to the last Take
	ctx   context.Context
}

func newRemote() *remote { return &remote{Store: storetest.Must(memstore.New(memstore.Options{}))} }

func (r *remote) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	r.takes.Add(1)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := r.fail[s]; err != nil {
		return false, err
	}
	if r.before != nil {
		if err := r.before(ctx, s); err != nil {
			return false, err
		}
	}
	if len(r.fail) == 0 && s == user {
		r.mu.Lock()
		r.hints, r.ctx = append([]algo.Result(nil), results...), ctx
		r.mu.Unlock()
	}
	return r.Store.Take(ctx, now, s, charges, results)
}

func (r *remote) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	r.refunds.Add(1)
	return r.Store.Settle(ctx, now, s, charges, results, elapsed)
}

func limit(tb testing.TB, l limiter.Limit) *limiter.Limit {
	tb.Helper()
	made, err := limiter.NewLimit(l)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

func perMinute(tb testing.TB, name string, n int64) *limiter.Limit {
	return limit(tb, limiter.Limit{Name: name, Rate: algo.Rate{Requests: n, Window: time.Minute}})
}

func take(t *testing.T, l *limiter.Limiter, charges ...limiter.Charge) limiter.Decision {
	t.Helper()
	return takeAt(t, l, noon, charges...)
}

func takeAt(t *testing.T, l *limiter.Limiter, now time.Time, charges ...limiter.Charge) limiter.Decision {
	t.Helper()
	d, err := l.Take(ctx, now, charges)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLimiter_Take(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	search := limit(t, limiter.Limit{Name: "search", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute,
		Burst: 20}})
	one := limiter.Charge{Subject: user, Limit: search, Cost: 1}
	var d limiter.Decision
	for range 3 {
		d = take(t, l, one)
	}
	want := limiter.Decision{Allowed: true, At: noon, Limit: search, Capacity: 20, Cost: 1, Remaining: 17, ResetAfter: 1800 * time.Millisecond}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("third request:\n got %+v\nwant %+v", d, want)
	}
	take(t, l, limiter.Charge{Subject: user, Limit: search, Cost: 17})
	d = take(t, l, one)
	want = limiter.Decision{At: noon, Limit: search, Capacity: 20, Cost: 1, RetryAfter: 600 * time.Millisecond, ResetAfter: 12 * time.Second}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("refused:\n got %+v\nwant %+v", d, want)
	}
}

// A decision reports the strictest of several limits. If limits refuse, it reports the limit with the
// longest wait. If the request is allowed, it reports the limit that admits the fewest further requests, but
// no global limit.
func TestLimiter_Take_strictest(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	wide, narrow := perMinute(t, "wide", 10), perMinute(t, "narrow", 5)
	slow := limit(t, limiter.Limit{Name: "slow", Rate: algo.Rate{Requests: 5, Window: time.Hour}})
	global := limit(t, limiter.Limit{Name: "global", Global: true, Rate: algo.Rate{Requests: 4, Window: time.Minute}})
	charges := func(cost int64) []limiter.Charge {
		return []limiter.Charge{
			{Subject: user, Limit: wide, Cost: cost},
			{Subject: limiter.Global(), Limit: global, Cost: cost},
			{Subject: user, Limit: narrow, Cost: cost},
			{Subject: other, Limit: slow, Cost: cost},
		}
	}
	d := take(t, l, charges(4)...)
	if !d.Allowed || d.Limit != narrow || d.Remaining != 1 {
		t.Errorf("allowed: got %q with %d remaining, want narrow with 1", d.Limit.Name, d.Remaining)
	}
	d = take(t, l, limiter.Charge{Subject: limiter.User("carol"), Limit: wide, Cost: 6},
		limiter.Charge{Subject: limiter.User("carol"), Limit: narrow, Cost: 3})
	if !d.Allowed || d.Limit != narrow || d.Remaining != 2 {
		t.Errorf("no further request on both: got %q with %d remaining, want narrow with 2", d.Limit.Name, d.Remaining)
	}
	// The limits narrow, slow and global refuse the next request. A Local store charges one subject after
	// the other: the subject user refuses first, so the subject other is not charged.
	d = take(t, l, charges(2)...)
	if d.Allowed || d.Limit != narrow {
		t.Errorf("refused: got limit %q, want narrow", d.Limit.Name)
	}
	d = take(t, l, limiter.Charge{Subject: user, Limit: wide, Cost: 7}, limiter.Charge{Subject: user, Limit: narrow, Cost: 11})
	if d.Allowed || d.Limit != narrow || d.RetryAfter != 0 {
		t.Errorf("a cost above the capacity: got %q with retry after %s, want narrow with 0", d.Limit.Name, d.RetryAfter)
	}
	d = take(t, l, limiter.Charge{Subject: limiter.Global(), Limit: global, Cost: 0})
	if !d.Allowed || d.Limit != nil {
		t.Errorf("only a global limit, allowed: got %+v, want no limit in the answer", d)
	}
	d = take(t, l, limiter.Charge{Subject: limiter.Global(), Limit: global, Cost: 1})
	if d.Allowed || d.Limit != global {
		t.Errorf("a global limit refuses: got %+v, want it in the answer", d)
	}
	if d := take(t, l); !d.Allowed || d.Limit != nil || d.Reason != limiter.ReasonNone {
		t.Errorf("no charges: got %+v, want an admission without a limit", d)
	}
}

// If one subject refuses, the charge on the other subject is refunded. This is true for a store in this
// process. It is also true for a remote store, which charges all subjects at the same time.
func TestLimiter_Take_refund(t *testing.T) {
	for _, name := range []string{"local", "remote"} {
		t.Run(name, func(t *testing.T) {
			r := newRemote()
			var store limiter.Store = r
			if name == "local" {
				store = r.Store
			}
			l := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1}))
			bucket := limit(t, limiter.Limit{Name: "bucket", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Hour}})
			mine, global := perMinute(t, "mine", 10), perMinute(t, "global", 3)
			charges := []limiter.Charge{{Subject: user, Limit: mine, Cost: 1}, {Subject: user, Limit: bucket, Cost: 1},
				{Subject: limiter.Global(), Limit: global, Cost: 1}}
			for i := range 6 {
				if d := take(t, l, charges...); d.Allowed != (i < 3) {
					t.Fatalf("request %d: got allowed %t, want %t", i+1, d.Allowed, i < 3)
				}
			}
			if d := take(t, l, limiter.Charge{Subject: user, Limit: mine, Cost: 0}); d.Remaining != 7 {
				t.Errorf("got %d of 10 remaining after 3 admitted and 3 refused by another subject, want 7", d.Remaining)
			}
			if d := take(t, l, limiter.Charge{Subject: user, Limit: bucket, Cost: 0}); d.Remaining != 997 {
				t.Errorf("got %d of 1000 remaining in the bucket, want 997", d.Remaining)
			}
			if refunds := r.refunds.Load(); name == "remote" && refunds != 3 {
				t.Errorf("got %d refunds, want 3", refunds)
			}
		})
	}
}

// A refused flood makes one store call a second, with every algorithm. The denial cache never admits a
// request.
func TestLimiter_Take_flood(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute},
		{Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute},
	} {
		t.Run(string(rate.Algorithm), func(t *testing.T) {
			now, r := noon, newRemote()
			l := storetest.Must(limiter.New(r, limiter.Options{}))
			flooded := limit(t, limiter.Limit{Name: "flooded", Rate: rate})
			charge := limiter.Charge{Subject: user, Limit: flooded, Cost: 1}
			for range 10 {
				takeAt(t, l, now, charge)
			}
			r.takes.Store(0)
			for i := range 4000 { // 4 seconds
				d := takeAt(t, l, now, charge)
				if d.Allowed {
					t.Fatalf("after %d ms: got an admission, want a refusal", i)
				}
				if d.Limit != flooded || d.RetryAfter <= 0 || !d.FromCache && i%1001 != 0 {
					t.Fatalf("refused after %d ms: got %+v, want limit %s, a wait and no store call", i, d, flooded.Name)
				}
				now = now.Add(time.Millisecond)
			}
			// One call each second, but none in the first: the cache has the state of the last admission.
			if calls := r.takes.Load(); calls != 3 {
				t.Errorf("got %d store calls for a flood of 4 s, want 3", calls)
			}
			now = noon.Add(10 * time.Minute)
			if d := takeAt(t, l, now, charge); !d.Allowed {
				t.Error("ten minutes later: got a refusal, want an admission")
			}
		})
	}
}

// The hint of a Take is the last state that this process saw. A cached state of old rules does not decide
// under new rules.
func TestLimiter_Take_denialCache(t *testing.T) {
	now, r := noon, newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Subjects: 6 * 4}))
	a, b := perMinute(t, "a", 1), perMinute(t, "b", 10)
	takeAt(t, l, now, limiter.Charge{Subject: user, Limit: b, Cost: 3})
	if r.hints[0].Machine != nil {
		t.Errorf("got the hint %+v for a new caller, want none", r.hints[0])
	}
	now = now.Add(time.Hour)
	takeAt(t, l, now, limiter.Charge{Subject: user, Limit: a, Cost: 1}, limiter.Charge{Subject: user, Limit: b, Cost: 1})
	if r.hints[0].Machine != nil || r.hints[1].State.Entries.Len() != 3 {
		t.Errorf("got hints %+v, want none for a and a count of 3 for b", r.hints)
	}
	if d := takeAt(t, l, now, limiter.Charge{Subject: user, Limit: a, Cost: 1}); d.Allowed || !d.FromCache {
		t.Errorf("a is used up: got %+v, want a refusal from the denial cache", d)
	}
	if d := takeAt(t, l, now, limiter.Charge{Subject: user, Limit: b, Cost: 1}); !d.Allowed {
		t.Errorf("b is not used up: got %+v, want an admission", d)
	}
	raised := perMinute(t, "a", 2)
	calls := r.takes.Load()
	takeAt(t, l, now, limiter.Charge{Subject: user, Limit: raised, Cost: 1})
	if r.takes.Load() == calls {
		t.Error("the changed limit: got a decision by the cached state of the old limit, want a store call")
	}
	// A decision from the denial cache ignores entries that are older than CacheTTL.
	old := limiter.Charge{Subject: other, Limit: a, Cost: 1}
	takeAt(t, l, now, old)
	now = now.Add(2 * time.Second)
	tight := perMinute(t, "tight", 1)
	takeAt(t, l, now, limiter.Charge{Subject: other, Limit: tight, Cost: 1})
	if d := takeAt(t, l, now, old, limiter.Charge{Subject: other, Limit: tight, Cost: 1}); !d.FromCache || d.Limit != tight {
		t.Errorf("got %+v, want a refusal by tight from the cache", d)
	}
	// The denial cache is bounded.
	for i := range 8 {
		takeAt(t, l, now, limiter.Charge{Subject: limiter.User(fmt.Sprint("crowd", i)), Limit: b, Cost: 1})
	}
	takeAt(t, l, now, limiter.Charge{Subject: user, Limit: b, Cost: 1})
	if r.hints[0].Machine != nil {
		t.Error("a cache of 4: got a decision from the cache for the ninth most recent subject, want a store call")
	}
}

func TestOptions_CacheTTL_disabled(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1}))
	charge := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}
	for range 3 {
		take(t, l, charge)
	}
	if calls := r.takes.Load(); calls != 3 {
		t.Errorf("without a denial cache: got %d calls for 3 requests, want 3", calls)
	}
}

// If the store fails, this process decides, the decision has the reason, and the log has one line. A
// refusal by another limit takes precedence.
func TestLimiter_Take_failure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want limiter.Reason
	}{
		{fmt.Errorf("%w: connection refused", limiter.ErrUnavailable), limiter.ReasonUnavailable},
		{fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.DeadlineExceeded), limiter.ReasonTimeout},
		{limiter.ErrFull, limiter.ReasonFull},
		{errors.New("other"), limiter.ReasonUnavailable},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			var log bytes.Buffer
			r := newRemote()
			r.fail = map[limiter.Subject]error{user: c.err}
			l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
			mine, theirs := perMinute(t, "mine", 10), perMinute(t, "theirs", 1)
			d := take(t, l, limiter.Charge{Subject: user, Limit: mine, Cost: 1})
			if !d.Allowed || d.Reason != c.want || d.Limit != mine || d.Remaining != 9 || d.Superseded {
				t.Errorf("got %+v, want an admission by this process with reason %s", d, c.want)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), string(c.want)) ||
				strings.Contains(log.String(), user.String()) {
				t.Errorf("logged %q, want one line with the reason and without the subject", log.String())
			}
			both := []limiter.Charge{{Subject: user, Limit: mine, Cost: 1}, {Subject: other, Limit: theirs, Cost: 1}}
			// Both subjects fail. If the store answered for one, a timeout of the other would mean subject_busy.
			r.fail[other] = c.err
			if d := take(t, l, both...); !d.Allowed || d.Reason != c.want || d.Limit != theirs {
				t.Errorf("both subjects failed: got %+v, want an admission with reason %s and limit %s", d, c.want, theirs.Name)
			}
			r.fail[other] = nil
			take(t, storetest.Must(limiter.New(r, limiter.Options{})), both[1]) // a charge by another process
			if d := take(t, l, both...); d.Allowed || d.Limit != theirs {
				t.Errorf("one failed and one refused: got %+v, want a refusal", d)
			}
		})
	}
}

// A request that its client cancels is still charged. The store call has the deadline of the Limiter.
func TestLimiter_Take_cancelled(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Timeout: 100 * time.Millisecond}))
	gone, cancel := context.WithCancel(context.WithValue(ctx, key{}, "kept"))
	cancel()
	charge := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 10), Cost: 1}
	d, err := l.Take(gone, noon, []limiter.Charge{charge})
	if err != nil || d.Remaining != 9 || d.Reason != limiter.ReasonNone {
		t.Errorf("cancelled: got %+v, error %v; want 9 remaining and no reason", d, err)
	}
	if r.ctx.Value(key{}) != "kept" {
		t.Error("the store call: got a context without the values of the request, want them")
	}
	if _, ok := r.ctx.Deadline(); !ok {
		t.Error("the store call: got a context without a deadline, want one")
	}
}

func TestLimiter_Take_invalid(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	a := perMinute(t, "a", 10)
	var many []limiter.Charge
	for i := range limiter.MaxCharges + 1 {
		many = append(many, limiter.Charge{Subject: user, Limit: perMinute(t, fmt.Sprint("l", i), 1), Cost: 1})
	}
	for _, c := range []struct {
		charges []limiter.Charge
		want    string
	}{
		{[]limiter.Charge{{Subject: user, Limit: a, Cost: -1}}, `invalid charge: limit "a": cost: negative (got -1, want 0 or more)`},
		{[]limiter.Charge{{Subject: user, Cost: 1}}, "invalid charge: charge 1: limit: missing, or not made by NewLimit; make it with NewLimit"},
		{[]limiter.Charge{{Subject: user, Limit: &limiter.Limit{Name: "b"}, Cost: 1}},
			"invalid charge: charge 1: limit: missing, or not made by NewLimit; make it with NewLimit"},
		{[]limiter.Charge{{Limit: a, Cost: 1}}, `invalid charge: limit "a": subject: required`},
		{[]limiter.Charge{{Subject: user, Limit: a, Cost: 1}, {Subject: other, Limit: a, Cost: 1}, {Subject: user, Limit: perMinute(t, "a", 3),
			Cost: 1}}, `invalid charge: limit "a": charged twice on one subject; add the costs to one charge`},
		{many, "invalid charge: too many limits on one subject (got 11, want at most 10)"},
	} {
		_, err := l.Take(ctx, noon, c.charges)
		if !errors.Is(err, limiter.ErrInvalidCharge) || err.Error() != c.want {
			t.Errorf("got error %v, want %s", err, c.want)
		}
	}
	if d := take(t, l, limiter.Charge{Subject: user, Limit: a, Cost: 0}); d.Remaining != 10 {
		t.Errorf("after an invalid request: got %d remaining, want 10", d.Remaining)
	}
}

// Concurrent requests are charged on a limit of their caller and on a global limit. The number of
// admissions is exactly the global limit. No caller is charged for more than its admissions.
func TestLimiter_Take_concurrent(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1}))
	mine, global := perMinute(t, "mine", 100), perMinute(t, "global", 20)
	var admitted [8]atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			caller := i % len(admitted)
			d, err := l.Take(ctx, noon, []limiter.Charge{{Subject: limiter.User(fmt.Sprint(caller)), Limit: mine, Cost: 1},
				{Subject: limiter.Global(), Limit: global, Cost: 1}})
			if err != nil {
				t.Error(err)
			}
			if d.Allowed {
				admitted[caller].Add(1)
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for caller := range admitted {
		n := admitted[caller].Load()
		total += n
		if d := take(t, l, limiter.Charge{Subject: limiter.User(fmt.Sprint(caller)), Limit: mine, Cost: 0}); d.Remaining != 100-n {
			t.Errorf("caller %d: %d admitted, got %d of 100 remaining, want %d", caller, n, d.Remaining, 100-n)
		}
	}
	if total != 20 {
		t.Errorf("got %d admitted, want 20 by the global limit", total)
	}
}

// If the store holds state of newer rules, their parameters decide, and the decision reports them. One line a
// minute is logged.
func TestLimiter_Take_superseded(t *testing.T) {
	var log bytes.Buffer
	r := newRemote()
	older := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Window: time.Minute}, Version: 1})
	newer := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 9, Window: time.Minute}, Version: 2})
	take(t, storetest.Must(limiter.New(r, limiter.Options{})), limiter.Charge{Subject: user, Limit: newer, Cost: 1})
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	for i := range 3 {
		d := takeAt(t, l, noon.Add(time.Duration(i)*25*time.Second), limiter.Charge{Subject: user, Limit: older, Cost: 1})
		if !d.Superseded || d.Limit != older || d.Capacity != 9 || d.Remaining != int64(7-i) {
			t.Errorf("request %d: got %+v, want a decision by the newer limit of 9 with %d remaining", i, d, 7-i)
		}
	}
	if n := strings.Count(log.String(), "rules superseded"); n != 1 || !strings.Contains(log.String(), "version=1") ||
		!strings.Contains(log.String(), "log/1m0s/9") {
		t.Errorf("got %d lines, want one with the version and the fingerprint: %s", n, log.String())
	}
	if d := takeAt(t, l, noon.Add(time.Hour), limiter.Charge{Subject: other, Limit: older, Cost: 1}); d.Superseded {
		t.Errorf("another subject: got %+v, want a decision by the parameters of this process", d)
	}
}

// StoreCalls is the number of calls of the remote store.
func TestDecision_StoreCalls(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	one, wide := perMinute(t, "one", 1), perMinute(t, "wide", 100)
	rate := algo.Rate{Requests: 100, Window: time.Minute}
	leased := limit(t, limiter.Limit{Name: "leased", Rate: rate, Spread: limiter.Spread{Lease: 10}})
	synced := limit(t, limiter.Limit{Name: "synced", Rate: rate, Spread: limiter.Spread{Sync: time.Second}})
	shadow := limit(t, limiter.Limit{Name: "shadow", Rate: rate, Shadow: true})
	of := func(s limiter.Subject, l *limiter.Limit) limiter.Charge {
		return limiter.Charge{Subject: s, Limit: l, Cost: 1}
	}
	third := limiter.User("44")
	takeAt(t, storetest.Must(limiter.New(r, limiter.Options{})), noon, of(other, one)) // a charge by another environment
	for _, step := range []struct {
		what    string
		want    int
		charges []limiter.Charge
	}{
		{"no limit", 0, nil},
		{"one subject", 1, []limiter.Charge{of(user, one), of(user, wide)}},
		{"refused by the denial cache", 0, []limiter.Charge{of(user, one)}},
		{"two subjects", 2, []limiter.Charge{of(user, wide), of(third, wide)}},
		{"two subjects, and one refund", 3, []limiter.Charge{of(user, wide), of(other, one)}},
		{"a shadow limit", 2, []limiter.Charge{of(user, wide), of(user, shadow)}},
		{"a first lease, of one", 1, []limiter.Charge{of(user, leased)}},
		{"a lease of two", 1, []limiter.Charge{of(user, leased)}},
		{"served by the lease", 0, []limiter.Charge{of(user, leased)}},
		{"the first synchronization of a counter", 1, []limiter.Charge{of(user, synced)}},
		{"counted here", 0, []limiter.Charge{of(user, synced)}},
	} {
		before := r.takes.Load() + r.refunds.Load()
		d := take(t, l, step.charges...)
		if made := r.takes.Load() + r.refunds.Load() - before; d.StoreCalls != step.want || int(made) != step.want {
			t.Errorf("%s: got StoreCalls %d, and %d calls of the store, want %d", step.what, d.StoreCalls, made, step.want)
		}
	}
	if d := take(t, storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		of(user, one)); d.StoreCalls != 0 {
		t.Errorf("a store in this process: got %d calls, want 0", d.StoreCalls)
	}
}

func mustTake(t *testing.T, l *limiter.Limiter, now time.Time, charge limiter.Charge) limiter.Decision {
	t.Helper()
	d, err := l.Take(ctx, now, []limiter.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Concurrent requests are admitted exactly up to the limit, while others are refunded on a window. Those on a bucket are
// not, because a bucket in use refunds only a part of a charge.
func TestLimiter_Take_concurrentRefunds(t *testing.T) {
	const capacity, workers, attempts = 1000, 8, 400
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
		charges := []limiter.Charge{{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: a, Requests: capacity,
			Window: time.Hour}}), Cost: 1}}
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range attempts {
					var d limiter.Decision
					var receipt *limiter.Receipt
					var err error
					if (w+i)%4 == 0 {
						d, receipt, err = l.TakeRefundable(ctx, noon, charges)
					} else {
						d, err = l.Take(ctx, noon, charges)
					}
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						admitted.Add(1)
						if a == algo.SlidingWindow {
							admitted.Add(-int64(receipt.Refund(ctx, noon).Given))
						}
					}
				}
			})
		}
		wg.Wait()
		for d := mustTake(t, l, noon, charges[0]); d.Allowed; d = mustTake(t, l, noon, charges[0]) {
			admitted.Add(1)
		}
		if admitted.Load() != capacity {
			t.Errorf("%s: got %d admitted, want %d", a, admitted.Load(), capacity)
		}
	}
}

// A request whose caller is known by an ID allocates no memory, whether it is allowed or refused.
func TestLimiter_Take_allocations(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow} {
		for _, requests := range []int64{1, algo.MaxRequests} {
			limit := limit(t, limiter.Limit{Name: "a", ID: limiter.NewID(string(a), fmt.Sprint(requests)), Rate: algo.Rate{Algorithm: a,
				Requests: requests, Window: time.Hour}})
			for _, id := range []string{"caller-1", "0192f0c1-2b9a-7c3e-9f41-5d2b8e6a7f10"} {
				if n := testing.AllocsPerRun(100, func() {
					if d, err := l.Take(ctx, noon, []limiter.Charge{{Subject: limiter.APIKey(id), Limit: limit, Cost: 1}}); err != nil ||
						d.Limit != limit {
						t.Errorf("got error %v, want none and a decision by the limit", err)
					}
				}); n != 0 {
					t.Errorf("%s, %d requests, %s: got %v allocations, want 0", a, requests, id, n)
				}
			}
		}
	}
}
