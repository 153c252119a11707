package leases

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// admits is a layer below that admits every ask. It knows that the limit full refuses.
type admits struct {
	calls int
	full  *domain.Limit
	err   error // that of the last ask
}

func (b *admits) Know(a *chain.Ask) bool {
	if !slices.ContainsFunc(a.Lines, func(l chain.Line) bool { return l.Limit == b.full }) {
		return false
	}
	a.Verdict = chain.Refused
	return true
}
func (b *admits) Settle(*chain.Correction) {}
func (b *admits) Take(a *chain.Ask) {
	b.calls++
	b.err = a.Err
	for i, c := range a.Charges {
		a.Results[i] = algo.Result{Machine: c.Limit.Machine(), State: algo.State{TAT: a.Now}}
	}
	a.Answer(true, nil)
}

// A bucket under pressure takes a lease, which keeps its quota for a grace time: the next request makes no call.
func TestLeases_grace(t *testing.T) {
	limit, err := domain.NewLimit(domain.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60_000, Window: time.Minute,
		Burst: 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	ts, below := &table.Trackers{Table: table.New(100), IntN: func(int) int { return 0 }}, &admits{}
	l, noon := Leases{Below: below, Process: &chain.Process{Trackers: ts}}, time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	charge := domain.Charge{Subject: domain.User("alice"), Limit: limit, Cost: 1}
	ts.RaisePressure(algo.InstantOf(noon), []domain.Charge{charge}, false)
	for i, after := range []time.Duration{0, 100 * time.Millisecond} {
		r := chain.NewRequest(context.Background(), noon.Add(after), false, &chain.Timeouts{})
		a := chain.Ask{Request: &r, Subject: charge.Subject}
		a.Add(chain.Line{Limit: limit, Want: 1}, charge, algo.Result{})
		l.Take(&a)
		if a.Verdict != chain.Admitted || below.calls != 1 || a.Lines[0].LeaseLeft != int64(1-i) {
			t.Errorf("request %d: got verdict %d, %d left of the lease and %d calls, want an admission, %d and 1", i, a.Verdict,
				a.Lines[0].LeaseLeft, below.calls, 1-i)
		}
	}
}

// meanwhile is a layer below that takes a spare of 3, while another request takes a lease.
type meanwhile struct {
	admits
	other func()
}

func (b *meanwhile) Take(a *chain.Ask) {
	b.other()
	a.Charges[0].Cost += 3
	b.admits.Take(a)
}

// A spare that a layer below took does not replace a lease that another request took meanwhile, unless it is larger, and none
// that another request renews (a lease of 0 here).
func TestLeases_keep(t *testing.T) {
	limit, err := domain.NewLimit(domain.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60_000, Window: time.Minute,
		Burst: 60_000}})
	if err != nil {
		t.Fatal(err)
	}
	for granted, want := range map[int64]int64{100: 99, 4: 3, 3: 3, 0: 0} {
		ts, r := &table.Trackers{Table: table.New(100)}, chain.NewRequest(context.Background(), time.Unix(1e9, 0), false, &chain.Timeouts{})
		a := chain.Ask{Request: &r, Subject: domain.User("alice")}
		a.Add(chain.Line{Limit: limit, Want: 1}, domain.Charge{Subject: a.Subject, Limit: limit, Cost: 1}, algo.Result{})
		tracker, serial := ts.Get(r.Now, a.Subject, limit), int64(0)
		l := Leases{Process: &chain.Process{Trackers: ts}, Below: &meanwhile{other: func() {
			if granted == 0 {
				tracker.Renewing = make(chan struct{})
				return
			}
			tracker.Lease.Renew(r.Now, algo.Result{Machine: limit.Machine(), State: algo.State{TAT: r.Now}}, granted, 1)
			tracker.Lease.Grace, serial = time.Second, tracker.Lease.Serial
		}}}
		l.Take(&a)
		if left := tracker.Lease.Left(r.Now); left != want || (tracker.Lease.Serial == serial) != (granted != 3) {
			t.Errorf("a lease of %d: got %d left, another lease: %t, want %d", granted, left, tracker.Lease.Serial != serial, want)
		}
	}
}

// What the layers below know of a limit refuses no charge that its lease can serve.
func TestLeases_Know(t *testing.T) {
	limit := func(name string, s domain.Spread) *domain.Limit {
		l, err := domain.NewLimit(domain.Limit{Name: name, Spread: s, Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60,
			Window: time.Hour, Burst: 60}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	leased, plain := limit("leased", domain.Spread{Lease: 2}), limit("plain", domain.Spread{})
	for _, c := range []struct {
		name  string
		taken int // the second request takes a lease for two
		full  *domain.Limit
		want  bool
	}{{"the lease has room", 2, leased, false}, {"the lease is used up", 3, leased, true}, {"another limit is full", 2, plain, true}} {
		ts, below := &table.Trackers{Table: table.New(100), IntN: func(int) int { return 0 }}, &admits{full: c.full}
		l := Leases{Below: below, Process: &chain.Process{Trackers: ts}}
		r := chain.NewRequest(context.Background(), time.Unix(1e9, 0), false, &chain.Timeouts{})
		var a chain.Ask
		for range c.taken + 1 {
			a = chain.Ask{Request: &r, Subject: domain.User("alice")}
			for _, limit := range []*domain.Limit{plain, leased} {
				a.Add(chain.Line{Limit: limit, Want: 1}, domain.Charge{Subject: a.Subject, Limit: limit, Cost: 1}, algo.Result{})
			}
			if below.calls < c.taken {
				l.Take(&a)
			}
		}
		if got := l.Know(&a); got != c.want || (a.Verdict == chain.Refused) != c.want || len(a.Lines) != 2 {
			t.Errorf("%s: got a refusal: %t, verdict %d and %d charges, want %t and 2 charges", c.name, got, a.Verdict, len(a.Lines), c.want)
		}
		a.Err = domain.ErrBreakerOpen
		l.Take(&a)
		if !errors.Is(below.err, domain.ErrBreakerOpen) {
			t.Errorf("%s: got error %v below, want the one that makes a call useless", c.name, below.err)
		}
	}
}
