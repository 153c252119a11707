package leases

import (
	"context"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// admits is a layer below that admits every ask.
type admits struct{ calls int }

func (b *admits) Know(*chain.Ask) bool     { return false }
func (b *admits) Settle(*chain.Correction) {}
func (b *admits) Take(a *chain.Ask) {
	b.calls++
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
	l, noon := Leases{Below: below, Trackers: ts}, time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	charge := domain.Charge{Subject: domain.User("alice"), Limit: limit, Cost: 1}
	ts.RaisePressure(algo.InstantOf(noon), []domain.Charge{charge}, false)
	for i, after := range []time.Duration{0, 100 * time.Millisecond} {
		r := chain.NewRequest(context.Background(), noon.Add(after), false, &chain.Timeouts{})
		a := chain.Ask{Request: &r, Subject: charge.Subject}
		a.Add(chain.Line{Limit: limit, Want: 1}, charge, algo.Result{})
		l.Take(&a)
		if a.Verdict != chain.Admitted || below.calls != 1 || a.Lines[0].LeaseLeft != int64(1-i) {
			t.Errorf("request %d: got verdict %d, %d left of the lease and %d calls, want an admission, %d and 1", i, a.Verdict, a.Lines[0].LeaseLeft,
				below.calls, 1-i)
		}
	}
}
