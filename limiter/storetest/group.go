package storetest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These constants define the load of GroupCommit.
const (
	groupCallers  = 64
	groupRequests = 30 // number of requests of each caller
	groupMost     = 0.1
	groupRounds   = 5 // maximum number of rounds
)

// GroupCommit tests that concurrent requests of one process on one subject share store calls. There must be at
// most one write for ten decisions. The function writes returns the server's number of writes. The store must
// admit exactly the limit and count exactly the admitted requests.
func GroupCommit(t *testing.T, store limiter.Store, writes func() int64) {
	for name, rate := range map[string]algo.Rate{
		"room for all": {Algorithm: algo.FixedWindow, Requests: 1e6, Window: 24 * time.Hour},
		"fixed window": {Algorithm: algo.FixedWindow, Requests: 570, Window: 24 * time.Hour}, "sliding window": {Algorithm: algo.SlidingWindow, Requests: 570, Window: 24 * time.Hour},
		"token bucket": {Algorithm: algo.TokenBucket, Requests: 570, Window: 24 * time.Hour}, "sliding log": {Algorithm: algo.SlidingLog, Requests: 320, Window: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			limit := Limit(t, "group", rate)
			l := Must(limiter.New(patient{store}, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
			perDecision := 1.0
			// The test tries several rounds. Requests share calls only if they run at the same time,
			// which a busy machine can prevent.
			for round := 0; round < groupRounds && perDecision > groupMost && !t.Failed(); round++ {
				perDecision = min(perDecision, groupRound(t, l, store, limit, writes))
			}
			if perDecision > groupMost {
				t.Errorf("writes: got at least %.3f per decision in %d rounds, want at most %g", perDecision, groupRounds, groupMost)
			}
		})
	}
}

// groupRound makes concurrent decisions on a new subject. It checks the numbers of admitted and of counted
// requests, and returns the number of writes per decision.
func groupRound(t *testing.T, l *limiter.Limiter, store limiter.Store, limit *limiter.Limit, writes func() int64) float64 {
	t.Helper()
	charges := []limiter.Charge{{Subject: subject(), Limit: limit, Cost: 1}}
	read(t, store, start, charges[0].Subject, limit) // leaves out the first call, which may open a connection
	before := writes()
	var admitted, busy atomic.Int64
	var wg sync.WaitGroup
	for range groupCallers {
		wg.Go(func() {
			for range groupRequests {
				d, err := l.Take(ctx, start.Time(), charges)
				switch {
				case err != nil || d.Allowed && d.Reason != limiter.ReasonNone:
					t.Error(d.Reason, err)
				case d.Allowed:
					admitted.Add(1)
				case d.Reason != limiter.ReasonNone:
					busy.Add(1)
				}
			}
		})
	}
	wg.Wait()
	decisions := int64(groupCallers * groupRequests)
	perDecision := float64(writes()-before) / float64(decisions)
	t.Logf("%.3f writes per decision, %d of %d admitted", perDecision, admitted.Load(), decisions)
	// On a busy machine, the store can charge a request after its deadline, so the check allows for
	// requests without a decision.
	if want := min(decisions, limit.Rate.Requests); admitted.Load() > want || admitted.Load() < want && busy.Load() == 0 {
		t.Errorf("admitted: got %d, want %d; %d requests had no decision", admitted.Load(), want, busy.Load())
	}
	r := read(t, store, start, charges[0].Subject, limit)[0]
	if n := r.Machine.Used(r.State, start); n < admitted.Load() || n > admitted.Load()+busy.Load() {
		t.Errorf("count: got %d, want the %d admitted requests; %d requests had no decision", n, admitted.Load(), busy.Load())
	}
	return perDecision
}

// patient is a store whose calls have no deadline, so that tests do not fail on a busy machine.
type patient struct{ limiter.Store }

// Take implements limiter.Store.
func (p patient) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	return p.Store.Take(context.WithoutCancel(ctx), now, subject, charges, results)
}
