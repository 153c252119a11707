package limiter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// onError returns a limit of n a minute. share is the number of processes that divide the limit in an
// outage.
func onError(tb testing.TB, name string, n int64, o limiter.OnError, share int) *limiter.Limit {
	return limit(tb, limiter.Limit{Name: name, Rate: algo.Rate{Requests: n, Window: time.Minute}, OnError: o, LocalProcesses: share})
}

// surviving returns a Limiter with the store r and without a denial cache.
func surviving(r *remote) *limiter.Limiter {
	return storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
}

func outcome(d limiter.Decision) string {
	switch {
	case d.Allowed && d.Reason == limiter.ReasonNone:
		return "allowed"
	case d.Allowed:
		return "degraded"
	case d.Failed:
		return "failed"
	case d.Reason == limiter.ReasonNone:
		return "refused"
	}
	return "refused degraded"
}

// If the store fails for several limits, on one subject or on several, the strictest OnError decides.
func TestOnError_strictest(t *testing.T) {
	const allow, local, deny = limiter.OnErrorAllow, limiter.OnErrorLocal, limiter.OnErrorDeny
	for _, c := range []struct {
		policies []limiter.OnError
		want     []string // outcomes of three requests; the share of a process is 2
	}{
		{[]limiter.OnError{allow}, []string{"degraded", "degraded", "degraded"}},
		{[]limiter.OnError{local}, []string{"degraded", "degraded", "refused degraded"}},
		{[]limiter.OnError{deny}, []string{"failed", "failed", "failed"}},
		{[]limiter.OnError{allow, local}, []string{"degraded", "degraded", "refused degraded"}},
		{[]limiter.OnError{local, allow}, []string{"degraded", "degraded", "refused degraded"}},
		{[]limiter.OnError{allow, deny}, []string{"failed", "failed", "failed"}},
		{[]limiter.OnError{deny, local, allow}, []string{"failed", "failed", "failed"}},
		{[]limiter.OnError{local, local}, []string{"degraded", "degraded", "refused degraded"}},
	} {
		for _, subjects := range []string{"one subject", "several subjects"} {
			t.Run(fmt.Sprint(c.policies, " ", subjects), func(t *testing.T) {
				r := newRemote()
				r.fail = map[limiter.Subject]error{}
				var charges []limiter.Charge
				for i, o := range c.policies {
					share := 0
					if o == local {
						share = 5
					}
					subject := user
					if subjects == "several subjects" {
						subject = limiter.User(fmt.Sprint(i))
					}
					r.fail[subject] = limiter.ErrUnavailable
					charges = append(charges, limiter.Charge{Subject: subject, Limit: onError(t, fmt.Sprint("l", i), 10, o, share), Cost: 1})
				}
				l := surviving(r)
				for i, want := range c.want {
					d := take(t, l, charges...)
					if got := outcome(d); got != want || d.Reason != limiter.ReasonUnavailable || d.Failed && (d.Limit != nil || d.RetryAfter != 0) {
						t.Errorf("request %d: got %s, want %s: %+v", i+1, got, want, d)
					}
				}
			})
		}
	}
}

// The call for one subject fails, and the call for another subject succeeds. If the second subject
// refuses, the request is denied. The charges of a denied request are refunded.
func TestOnError_otherSubject(t *testing.T) {
	for _, c := range []struct {
		o      limiter.OnError
		want   []string // outcomes of four requests; the other limit has room for 3, the share for 2
		remain int64    // quota of the other limit after these requests
	}{
		{limiter.OnErrorAllow, []string{"degraded", "degraded", "degraded", "refused degraded"}, 0},
		{limiter.OnErrorLocal, []string{"degraded", "degraded", "refused degraded", "refused degraded"}, 1},
		{limiter.OnErrorDeny, []string{"failed", "failed", "failed", "failed"}, 3},
	} {
		t.Run(c.o.String(), func(t *testing.T) {
			r := newRemote()
			r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
			l, share := surviving(r), 0
			if c.o == limiter.OnErrorLocal {
				share = 5
			}
			mine, theirs := onError(t, "mine", 10, c.o, share), perMinute(t, "theirs", 3)
			charges := []limiter.Charge{{Subject: user, Limit: mine, Cost: 1}, {Subject: other, Limit: theirs, Cost: 1}}
			for i, want := range c.want {
				if got := outcome(take(t, l, charges...)); got != want {
					t.Errorf("request %d: got %s, want %s", i+1, got, want)
				}
			}
			if d := take(t, l, limiter.Charge{Subject: other, Limit: theirs}); d.Remaining != c.remain {
				t.Errorf("the other limit: got %d remaining, want %d", d.Remaining, c.remain)
			}
			take(t, l, limiter.Charge{Subject: other, Limit: theirs, Cost: c.remain})
			d := take(t, l, charges...)
			if got := outcome(d); got != "refused degraded" || d.Limit != theirs || d.RetryAfter <= 0 {
				t.Errorf("the other limit is used up: got %s, want a degraded refusal by the other limit: %+v", got, d)
			}
		})
	}
}

// A shadow limit denies no request, for every OnError. The fallback does not count shadow limits.
func TestOnError_shadow(t *testing.T) {
	r := newRemote()
	for _, o := range []limiter.OnError{limiter.OnErrorLocal, limiter.OnErrorDeny} {
		for _, spread := range []limiter.Spread{{}, {Sync: time.Second}, {Lease: 5}, {Shards: 2}} {
			l, share := surviving(r), 0
			if o == limiter.OnErrorLocal {
				share = 10
			}
			tried := limit(t, limiter.Limit{Name: "tried", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Shadow: true, Spread: spread,
				OnError: o, LocalProcesses: share})
			for _, known := range []bool{false, true} {
				r.fail = nil
				if known {
					take(t, l, limiter.Charge{Subject: user, Limit: tried, Cost: 1})
				}
				r.fail = map[limiter.Subject]error{}
				for _, s := range tried.Subjects(user) {
					r.fail[s] = limiter.ErrUnavailable
				}
				for range 3 {
					if d := takeAt(t, l, noon.Add(2*time.Second), limiter.Charge{Subject: user, Limit: tried, Cost: 1}); !d.Allowed ||
						d.Reason != limiter.ReasonNone {
						t.Errorf("%s, %+v: got %+v, want an admission without a reason", o, spread, d)
					}
				}
			}
		}
	}
}

// While the store fails, OnError decides with every Spread. The test covers the first request of an
// environment, and the first request that needs the store.
func TestOnError_spread(t *testing.T) {
	for _, spread := range []limiter.Spread{{}, {Sync: 100 * time.Millisecond}, {Lease: 5}, {Shards: 2}} {
		for o, want := range map[limiter.OnError][]string{
			limiter.OnErrorAllow: {"degraded", "degraded", "degraded"},
			limiter.OnErrorLocal: {"degraded", "degraded", "refused degraded"}, // the share is 2, a tenth of 20
			limiter.OnErrorDeny:  {"failed", "failed", "failed"},
		} {
			for _, known := range []bool{false, true} {
				t.Run(fmt.Sprintf("%+v %s %t", spread, o, known), func(t *testing.T) {
					r, share := newRemote(), 0
					if o == limiter.OnErrorLocal {
						share = 10
					}
					busy := limit(t, limiter.Limit{Name: "busy", Rate: algo.Rate{Requests: 20, Window: time.Hour}, Spread: spread, OnError: o,
						LocalProcesses: share})
					c := limiter.Charge{Subject: user, Limit: busy, Cost: 1}
					l, now := surviving(r), noon
					for range 3 {
						if known {
							takeAt(t, l, now, c)
						}
					}
					now = now.Add(2 * time.Second) // leases have ended, and counters have to synchronize
					r.fail = map[limiter.Subject]error{}
					for _, s := range busy.Subjects(user) {
						r.fail[s] = limiter.ErrUnavailable
					}
					for i, want := range want {
						if known && o == limiter.OnErrorLocal && i == 1 {
							// One tenth of the charges before the outage counts on the share of 2. The second request
							// therefore exceeds the share.
							want = "refused degraded"
						}
						if got := outcome(takeAt(t, l, now, c)); got != want {
							t.Errorf("request %d of the outage: got %s, want %s", i+1, got, want)
						}
					}
					r.fail = nil
					now = now.Add(time.Second)
					before := int64(0)
					if known {
						before = 3
					}
					if d := takeAt(t, l, now, c); outcome(d) != "allowed" {
						t.Errorf("after the outage: got %+v, want an admission by the store", d)
					}
					// The process also counts what it admitted in the outage, because the store never gets these
					// charges. The same is true for requests that a counter admitted.
					if o == limiter.OnErrorLocal {
						before += 2
						if known {
							before--
						}
					}
					if d := takeAt(t, l, now.Add(2*time.Second), c); spread == (limiter.Spread{}) && d.Remaining != 20-before-2 {
						t.Errorf("got %d remaining, want %d", d.Remaining, 20-before-2)
					}
				})
			}
		}
	}
}

// LocalProcesses processes together admit at most the limit. Their decisions equal the decisions of a
// limit divided by hand.
func TestOnError_local_bound(t *testing.T) {
	down := newRemote()
	down.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	random := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []algo.Rate{
		{Requests: 23, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 23, Window: time.Minute},
		{Algorithm: algo.SlidingLog, Requests: 23, Window: time.Minute},
		{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 23},
		{Algorithm: algo.LeakyBucket, Requests: 100, Window: time.Minute, Burst: 23},
	} {
		for _, n := range []int{2, 5, 23} {
			local := limit(t, limiter.Limit{Name: "a", Rate: rate, OnError: limiter.OnErrorLocal, LocalProcesses: n})
			part := rate
			part.Requests, part.Burst, part.Counts = rate.Requests/int64(n), rate.Burst/int64(n), true // a part counts like the whole
			divided := limit(t, limiter.Limit{Name: "a", Rate: part})
			var shares, parts []*limiter.Limiter
			for range n {
				shares = append(shares, surviving(down))
				parts = append(parts, storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})))
			}
			admitted := 0
			for range 200 {
				i := random.IntN(n)
				got := takeAt(t, shares[i], noon, limiter.Charge{Subject: user, Limit: local, Cost: 1})
				want := takeAt(t, parts[i], noon, limiter.Charge{Subject: user, Limit: divided, Cost: 1})
				if got.Allowed {
					admitted++
				}
				// The numbers in the decision belong to the share, not to the limit.
				if got.Limit != local || !got.Superseded || got.Reason != limiter.ReasonUnavailable || got.StoreCalls != 1 {
					t.Fatalf("got %+v, want a superseded decision with reason %s and one store call", got, limiter.ReasonUnavailable)
				}
				got.Limit, got.Superseded, got.Reason = want.Limit, want.Superseded, want.Reason
				got.StoreCalls, got.StoreTime = want.StoreCalls, want.StoreTime
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s over %d:\n got %+v\nwant %+v", rate.Algorithm, n, got, want)
				}
			}
			if admitted > 23 || n == 23 && admitted != 23 {
				t.Errorf("%s: %d processes admit %d, want at most 23, and exactly 23 for 23 processes", rate.Algorithm, n, admitted)
			}
		}
	}
}

// If the fallback has no room for a subject, it evicts the one below half of all its limits that was unused for the longest
// time. If there is none, the request is denied with LocalFull. A full Local store denies too. Once a second, subjects whose
// counts have expired are removed.
func TestOnError_local_full(t *testing.T) {
	c := limiter.Charge{Subject: user, Limit: onError(t, "a", 40, limiter.OnErrorLocal, 2), Cost: 1}
	full := newRemote()
	full.fail = map[limiter.Subject]error{user: limiter.ErrFull}
	l := storetest.Must(limiter.New(inProcess{full}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	for name, charges := range map[string][]limiter.Charge{"one limit": {c},
		"two": {c, {Subject: user, Limit: perMinute(t, "b", 1), Cost: 1}}} {
		if d := take(t, l, charges...); outcome(d) != "failed" || !d.LocalFull || d.Reason != limiter.ReasonFull {
			t.Errorf("a Local store, %s: got %+v, want a denial with LocalFull", name, d)
		}
	}
	down := newRemote()
	down.fail = map[limiter.Subject]error{}
	l = storetest.Must(limiter.New(down, limiter.Options{Subjects: 3, Logger: slog.New(slog.DiscardHandler)}))
	c.Limit = limit(t, limiter.Limit{Name: "a", OnError: limiter.OnErrorLocal, LocalProcesses: 2, // another tier has half of the limit
		Rate: algo.Rate{Requests: 80, Of: 80, Percent: 100, Least: 40, Window: time.Minute}})
	evicted := int64(0)
	request := func(i int, at time.Duration, want string, cost int64) {
		t.Helper()
		c.Cost = cost
		c.Subject = limiter.User(fmt.Sprint(i))
		down.fail[c.Subject] = limiter.ErrUnavailable
		d := takeAt(t, l, noon.Add(at), c)
		if outcome(d) != want || d.LocalFull != (want == "failed") || d.Reason != limiter.ReasonUnavailable || d.Evicted != evicted {
			t.Errorf("caller %d after %s: want %s and %d evicted, got %+v", i, at, want, evicted, d)
		}
	}
	for i := range 10 {
		want := "degraded"
		if i >= 3 {
			want = "failed"
		}
		request(i, 0, want, 10) // half of the least share of a process
	}
	request(0, time.Second, "degraded", 1)
	// The fallback still counts other callers of the first window, so it is full.
	request(3, time.Minute, "failed", 1)
	request(0, 70*time.Second, "degraded", 9)
	request(4, 2*time.Minute, "degraded", 10) // the counts of the other callers have expired
	request(5, 2*time.Minute, "degraded", 9)
	evicted = 1
	request(6, 2*time.Minute, "degraded", 10) // in the place of 0: 4 has used half of its share, and 5 came later
	evicted = 0
	request(5, 2*time.Minute+time.Second, "degraded", 11)
	request(7, 2*time.Minute+time.Second, "failed", 1)
}

// A cost above the share is denied with Failed. This is not a refusal by the limit: the limit admits the
// cost after the outage.
func TestOnError_local_tooLarge(t *testing.T) {
	r := newRemote()
	r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	l := surviving(r)
	large := limiter.Charge{Subject: user, Limit: onError(t, "a", 10, limiter.OnErrorLocal, 5), Cost: 3}
	small := limiter.Charge{Subject: user, Limit: onError(t, "b", 10, limiter.OnErrorLocal, 5), Cost: 1}
	for i := range 3 {
		if d := take(t, l, small, large); outcome(d) != "failed" || d.Limit != nil {
			t.Errorf("request %d: got %+v, want a denial with Failed and no limit", i+1, d)
		}
	}
	if d := mustPeek(t, l, noon, large); outcome(d) != "failed" {
		t.Errorf("Peek: got %+v, want a denial with Failed", d)
	}
	if d := mustPeek(t, l, noon, small); d.Remaining != 2 {
		t.Errorf("the other limit: got %d of its share remaining, want 2, because no request was admitted", d.Remaining)
	}
	large.Force = true
	if d := take(t, l, large); outcome(d) != "degraded" {
		t.Errorf("a forced charge: got %+v, want an admission beyond the share", d)
	}
	r.fail, large.Force = nil, false
	if d := take(t, l, large); outcome(d) != "allowed" {
		t.Errorf("after the outage: got %+v, want an admission by the store", d)
	}
}

// inProcess is a store that the Limiter treats as part of this process.
type inProcess struct{ limiter.Store }

func (inProcess) Evicted() int64 { return 0 }

// OnError also decides when a store in this process is full.
func TestOnError_inProcess(t *testing.T) {
	full := newRemote()
	full.fail = map[limiter.Subject]error{user: limiter.ErrFull}
	l := storetest.Must(limiter.New(inProcess{full}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	for o, want := range map[limiter.OnError]string{limiter.OnErrorAllow: "degraded", limiter.OnErrorDeny: "failed"} {
		if d := take(t, l, limiter.Charge{Subject: user, Limit: onError(t, "a", 10, o, 0), Cost: 1}); outcome(d) != want ||
			d.Reason != limiter.ReasonFull {
			t.Errorf("%s: got %+v, want it %s with reason %s", o, d, want, limiter.ReasonFull)
		}
	}
	// A store that returns no state of a limit has failed.
	deny := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 9, Window: time.Minute}, OnError: limiter.OnErrorDeny})
	blank := storetest.Must(limiter.New(stateless{newRemote()}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	if d := takeAt(t, blank, noon, limiter.Charge{Subject: user, Limit: deny, Cost: 1}); d.Allowed || d.Reason != limiter.ReasonUnavailable {
		t.Errorf("a store without states: got %+v, want a denial because the store is unavailable", d)
	}
}

// stateless is a store that returns no states.
type stateless struct{ limiter.Store }

func (s stateless) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	defer clear(results)
	return s.Store.Take(ctx, now, subject, charges, results)
}

// In an outage, Peek charges nothing and reports what Take would decide. A Receipt also refunds the
// charge on a share.
func TestOnError_local_peek_refund(t *testing.T) {
	r := newRemote()
	r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	l := surviving(r)
	c := limiter.Charge{Subject: user, Limit: onError(t, "a", 10, limiter.OnErrorLocal, 10), Cost: 1}
	for range 2 {
		if d := mustPeek(t, l, noon, c); outcome(d) != "degraded" || d.Remaining != 1 || d.Capacity != 1 {
			t.Errorf("Peek: got %+v, want an admission with 1 of 1 remaining", d)
		}
	}
	_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{c})
	if err != nil {
		t.Fatal(err)
	}
	if d := mustPeek(t, l, noon, c); outcome(d) != "refused degraded" || d.RetryAfter <= 0 {
		t.Errorf("Peek at a share that is used up: got %+v, want a refusal with a wait", d)
	}
	receipt.Refund(ctx, noon)
	if d := take(t, l, c); outcome(d) != "degraded" {
		t.Errorf("after a refund: got %+v, want an admission by this process", d)
	}
	r.fail = nil
	if d := take(t, l, c); outcome(d) != "allowed" || d.Remaining != 8 {
		t.Errorf("after the outage: got %+v, want the charges of the outage to count", d)
	}
	other := storetest.Must(limiter.New(r, limiter.Options{}))
	if d := take(t, other, c); outcome(d) != "allowed" || d.Remaining != 8 {
		t.Errorf("another environment: got %+v, want no charge from the outage in the store", d)
	}
}

func TestNewLimit_onError(t *testing.T) {
	rate := algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute, Burst: 4}
	for _, c := range []struct {
		limit limiter.Limit
		want  string
	}{
		{limiter.Limit{OnError: -2}, "on_error OnError(-2), want allow, local or deny"},
		{limiter.Limit{OnError: 2}, "on_error OnError(2), want allow, local or deny"},
		{limiter.Limit{OnError: limiter.OnErrorAllow, LocalProcesses: 2}, "local_processes 2, want none without on_error local"},
		{limiter.Limit{OnError: limiter.OnErrorDeny, LocalProcesses: 2}, "local_processes 2, want none without on_error local"},
		{limiter.Limit{LocalProcesses: -1}, "local_processes -1, want 1 to 4 here"},
		{limiter.Limit{OnError: limiter.OnErrorLocal, LocalProcesses: 5}, "local_processes 5, want 1 to 4 here"},
	} {
		c.limit.Name, c.limit.Rate = "a", rate
		_, err := limiter.NewLimit(c.limit)
		field, ok := errors.AsType[*algo.FieldError](err)
		if !ok || fmt.Sprintf("%s %v, want %s", field.Field, field.Got, field.Want) != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	l := limit(t, limiter.Limit{Name: "a", Rate: rate, OnError: limiter.OnErrorLocal, LocalProcesses: 3})
	if one := perMinute(t, "b", 5); one.OnError != limiter.OnErrorLocal || one.LocalProcesses != 1 || one.MaxLocalCost() != 5 {
		t.Errorf("by default: got %+v, want local and one process", one)
	}
	if l.MaxCost() != 4 || l.MaxLocalCost() != 1 {
		t.Errorf("got MaxCost %d and MaxLocalCost %d, want 4 and 1", l.MaxCost(), l.MaxLocalCost())
	}
}

// hanging is a store that does not answer while its field answers is false.
type hanging struct {
	*remote
	storetest.Patient
	mu      sync.Mutex
	waited  []time.Duration
	answers bool          // the store answers, as remote does
	first   time.Duration // how long the first decision may wait; ConnectTimeout returns it once
}

// ConnectTimeout implements limiter.Remote.
func (h *hanging) ConnectTimeout(algo.Instant) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.first
	h.first = 0
	return first
}

func (h *hanging) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	if h.answers {
		return h.remote.Take(ctx, now, s, charges, results)
	}
	begun := time.Now()
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waited = append(h.waited, time.Since(begun))
	return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
}

// A request that waits for the call of another request makes no call after its deadline. Its subject is
// busy then, because the store answers other subjects.
func TestLimiter_Take_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{remote: newRemote(), first: 900 * time.Millisecond}
		l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute},
			Spread: limiter.Spread{Lease: 5}})}
		var first sync.WaitGroup
		first.Go(func() {
			if d := takeAt(t, l, time.Now(), c); d.Reason != limiter.ReasonBusy || d.StoreCalls != 1 {
				t.Errorf("the calling request: got %+v, want a busy subject after one store call", d)
			}
		})
		synctest.Wait()
		store.answers = true
		takeAt(t, l, time.Now(), limiter.Charge{Subject: other, Cost: 1, Limit: perMinute(t, "b", 10)}) // opens the connections
		store.answers = false
		begun := time.Now()
		if d := takeAt(t, l, begun, c); d.Reason != limiter.ReasonBusy || d.StoreCalls != 0 || time.Since(begun) != 50*time.Millisecond {
			t.Errorf("the waiting request: got %+v after %s, want a busy subject after 50ms without a store call", d, time.Since(begun))
		}
		first.Wait()
		if !slices.Equal(store.waited, []time.Duration{900 * time.Millisecond}) {
			t.Errorf("the store calls lasted %s, want one of 900 ms", store.waited)
		}
	})
}

// An outage logs one line a second for each reason, with the number of suppressed lines.
func TestLimiter_Take_outageLog(t *testing.T) {
	var log bytes.Buffer
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	c := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 1000), Cost: 1}
	for i := range 300 { // 3 seconds
		r.fail = map[limiter.Subject]error{user: []error{limiter.ErrUnavailable, limiter.ErrBreakerOpen, limiter.ErrThrottled}[i%3]}
		takeAt(t, l, noon.Add(time.Duration(i)*10*time.Millisecond), c)
	}
	takeAt(t, l, noon.Add(-time.Hour), c) // the clock was set back
	var got []string
	for line := range strings.Lines(log.String()) {
		_, rest, _ := strings.Cut(line, "reason=")
		reason, _, _ := strings.Cut(rest, " err=")
		got = append(got, reason)
	}
	want := []string{
		"store_unavailable suppressed=0", "store_breaker suppressed=0", "store_throttled suppressed=0", // the first line of each reason
		// the next line of each reason, a second later
		"store_unavailable suppressed=33", "store_breaker suppressed=33", "store_throttled suppressed=33",
		"store_unavailable suppressed=33", "store_breaker suppressed=33", "store_throttled suppressed=33",
		"store_throttled suppressed=31",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}
