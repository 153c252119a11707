package storetest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// start is the first instant of the tests. It is far in the future, so that no server expires state
// by its own clock. It is not at the start of a window of any length.
var start = algo.InstantOf(time.Date(2100, 1, 2, 3, 4, 5, 678_901_234, time.UTC))

// Limit returns a limit for a test. Its name determines its ID.
func Limit(tb failer, name string, rate algo.Rate) *limiter.Limit {
	tb.Helper()
	l, err := limiter.NewLimit(limiter.Limit{Name: name, Rate: rate, Count: countOf(rate), Version: 1})
	if err != nil {
		tb.Fatalf("limit %s: %v", name, err)
	}
	return l
}

func countOf(rate algo.Rate) (c limiter.Count) {
	if rate.Algorithm == algo.Concurrent {
		c.Of = limiter.CountConcurrent
	} else if rate.Requests > algo.MaxRequests {
		c.Of = limiter.CountCost
	}
	return c
}

// changed returns l with another rate, as in a later version of the rules.
func changed(tb failer, l *limiter.Limit, version int64, rate algo.Rate) *limiter.Limit {
	tb.Helper()
	next, err := limiter.NewLimit(limiter.Limit{Name: l.Name, ID: l.ID, Rate: rate, Count: countOf(rate), Version: version})
	if err != nil {
		tb.Fatalf("limit %s: %v", l.Name, err)
	}
	return next
}

// subject returns a different subject for each call.
func subject() limiter.Subject { return limiter.User("storetest-" + rand.Text()) }

// twoProcesses returns the stores of two processes that share their state. Processes cannot share a store in memory.
func twoProcesses(t *testing.T, s Suite) [2]limiter.Store {
	t.Helper()
	first, second := s.Open(t), s.Open(t)
	if _, ok := first.(limiter.Local); ok {
		second = first
	}
	return [2]limiter.Store{first, second}
}

// pair is a store and its model, with one subject.
type pair struct {
	store   limiter.Store
	model   *Model
	subject limiter.Subject
}

func newPair(t *testing.T, s Suite) *pair {
	t.Helper()
	return newPairOf(s.Open(t), s)
}

func newPairOf(store limiter.Store, s Suite) *pair {
	return &pair{store: store, model: &Model{Margin: s.Margin}, subject: subject()}
}

// failer has the methods that testing.TB and rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// take charges the store and the model, and fails the test if they differ.
func (p *pair) take(t failer, now algo.Instant, charges []limiter.Charge, hint []algo.Result) (bool, []algo.Result) {
	t.Helper()
	for i := range charges {
		charges[i].Subject = p.subject
	}
	results := make([]algo.Result, len(charges))
	copy(results, hint)
	allowed, err := p.store.Take(ctx, now, p.subject, charges, results)
	if err != nil {
		t.Fatalf("take at %s: got error %v, want none", now.Time(), err)
	}
	wantAllowed, want := p.model.Take(now, p.subject, charges)
	if allowed != wantAllowed {
		t.Fatalf("take of %v at start%+v: got allowed %t and state %+v, want %t and %+v", costs(charges), now.Sub(start), allowed, results,
			wantAllowed, want)
	}
	for i := range want {
		got, model := trimmed(results[i]), trimmed(want[i])
		if got.State != model.State || got.Machine.Fingerprint() != model.Machine.Fingerprint() ||
			got.Machine.Capacity() != model.Machine.Capacity() || got.Clamped != model.Clamped {
			t.Fatalf("limit %s after a take of %v at start%+v (allowed %t): got %s up to %d %+v (clamped %t), want %s up to %d %+v (%t)",
				charges[i].Limit.Name, costs(charges), now.Sub(start), allowed,
				got.Machine.Fingerprint(), got.Machine.Capacity(), got.State, got.Clamped,
				model.Machine.Fingerprint(), model.Machine.Capacity(), model.State, model.Clamped)
		}
	}
	if allowed && !p.model.Number(p.subject, charges, statesOf(results)) {
		t.Fatalf("take of %v at start%+v: got %+v, want slots with new numbers", costs(charges), now.Sub(start), results)
	}
	return allowed, results
}

func statesOf(results []algo.Result) (list []algo.State) {
	for _, r := range results {
		list = append(list, r.State)
	}
	return list
}

// trimmed returns r without the parts in which a store may differ from the model:
//
//   - entries of a log that have expired by every clock
//   - Refunds of a log
//   - numbers of slots
func trimmed(r algo.Result) algo.Result {
	if log, ok := r.Machine.(*algo.Log); ok {
		r.State = log.Trim(r.State)
		r.State.Refunds = 0
	}
	if _, ok := r.Machine.(*algo.Slots); ok {
		r.State.Newest, r.State.Entries = 0, algo.SlotTimes(r.State.Entries)
	}
	return r
}

func (p *pair) refund(t failer, charges []limiter.Charge, results []algo.Result, elapsed time.Duration) {
	t.Helper()
	p.settle(t, start, charges, results, elapsed)
}

// settle makes corrections in the store and in the model.
func (p *pair) settle(t failer, now algo.Instant, charges []limiter.Charge, results []algo.Result, elapsed time.Duration) {
	t.Helper()
	got, err := p.store.Settle(ctx, now, p.subject, charges, results, elapsed)
	logs := 0 // number of logs; a store, but not the model, can still have expired entries of a log and refund them
	for _, r := range results {
		if _, ok := r.Machine.(*algo.Log); ok {
			logs++
		}
	}
	want := p.model.Settle(now, p.subject, charges, results, elapsed)
	if err != nil || got.Given < want.Given || got.Given > want.Given+logs || got.Excess != want.Excess {
		t.Fatalf("settlement of %+v at start%+v: got %+v and %v, want %+v", charges, now.Sub(start), got, err, want)
	}
}

// corrections returns the charges that change the given charges to their actual costs, and the results that belong to
// them.
func corrections(charges []limiter.Charge, results []algo.Result, actual []int64) (corrected []limiter.Charge, of []algo.Result) {
	for i, c := range charges {
		if more := actual[i%len(actual)] - c.Cost; more != 0 {
			c.Cost, c.Force = max(more, -more), more > 0
			corrected, of = append(corrected, c), append(of, results[i])
		}
	}
	return corrected, of
}

// inspect compares the state of the store with the state of the model.
func (p *pair) inspect(t failer) []limiter.Entry {
	t.Helper()
	got, err := p.store.Inspect(ctx, p.subject)
	if err != nil {
		t.Fatalf("inspect: got error %v, want none", err)
	}
	want := p.model.Inspect(p.subject)
	if len(got) != len(want) {
		for _, w := range want {
			if !slices.ContainsFunc(got, func(g limiter.Entry) bool { return g.ID == w.ID }) {
				t.Fatalf("inspect: got no limit %s, want version %d, %s %+v", w.ID, w.Version, w.Machine.Fingerprint(), w.State)
			}
		}
		t.Fatalf("inspect: got %d limits, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := trimmed(got[i].Result), trimmed(want[i].Result)
		if got[i].ID != want[i].ID || got[i].Version != want[i].Version || got[i].Skew != want[i].Skew || g.State != w.State ||
			g.Machine.Fingerprint() != w.Machine.Fingerprint() {
			t.Fatalf("inspect: limit %s\n got version %d, %s %+v, skew %+v\nwant version %d, %s %+v, skew %+v", want[i].ID,
				got[i].Version, g.Machine.Fingerprint(), g.State, got[i].Skew, want[i].Version, w.Machine.Fingerprint(), w.State, want[i].Skew)
		}
	}
	return got
}

func (p *pair) reset(t failer) {
	t.Helper()
	if err := p.store.Reset(ctx, p.subject); err != nil {
		t.Fatalf("reset: got error %v, want none", err)
	}
	p.model.Reset(p.subject)
}

func costs(charges []limiter.Charge) (list []int64) {
	for _, c := range charges {
		list = append(list, c.Cost)
	}
	return list
}

func one(l *limiter.Limit, cost int64) []limiter.Charge {
	return []limiter.Charge{{Limit: l, Cost: cost}}
}

// Patient implements limiter.Remote with a deadline that a busy machine meets. A store in memory that a test treats as
// shared can embed it. Without it, a decision gets limiter.ReasonBusy if the machine stops it for limiter.DefaultTimeout.
type Patient struct{}

// Timeout implements limiter.Remote.
func (Patient) Timeout() time.Duration { return 0 }

// ConnectTimeout implements limiter.Remote.
func (Patient) ConnectTimeout(algo.Instant) time.Duration { return time.Hour }

// Waiting returns a store whose decisions wait for each answer of a server, however long it takes. A Local store stays as it is.
func Waiting(s limiter.Store) limiter.Store {
	if _, ok := s.(limiter.Local); ok {
		return s
	}
	return struct {
		limiter.Store
		Patient
	}{s, Patient{}}
}
