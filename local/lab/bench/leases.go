package main

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
)

var leaseColumns = []column{
	{"million decisions/s", 2}, {"one goroutine", 2}, {"store calls in 1000", 3}, {"failed", 0}, {"over-admitted", 0},
}

// leaseGroup measures one hot key on Redis, in one process that takes leases.
func leaseGroup(ctx context.Context, b *bench) (group, error) {
	m, err := b.redis(ctx)
	if err != nil {
		return group{}, err
	}
	defer m.close(context.WithoutCancel(ctx))
	var contenders []contender
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		contenders = append(contenders,
			contender{string(a) + ", leases", func() ([]figure, error) { return m.leaseLine(ctx, a, 100_000) }},
			contender{string(a) + ", none", func() ([]figure, error) { return m.leaseLine(ctx, a, 0) }})
	}
	rows, err := b.interleave(ctx, contenders)
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Leases: one hot key on Redis, one process", Corner: "limit", Columns: leaseColumns, Rows: rows,
		Omitted: []string{"one goroutine", "failed", "over-admitted"},
		Note: "The limit is a billion requests a minute, and a lease has at most 100,000. All cores together decide; without leases, 64 goroutines. " +
			"A bucket's lease leaks at the rate of the bucket.",
	}
	t.Note += " Wrong decisions, also of ten environments with leases of 50 that send four times a limit of 1000: " + t.aboveZero("failed", "over-admitted") + "."
	return group{Name: "Leases", Tables: []table{t}}, nil
}

// countingStore counts the calls to Take.
type countingStore struct {
	limiter.Store
	calls atomic.Int64
}

// Take implements limiter.Store.
func (s *countingStore) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	s.calls.Add(1)
	return s.Store.Take(ctx, now, subject, charges, results)
}

func (m *redisMeasure) environment() (*limiter.Limiter, *countingStore) {
	store := &countingStore{Store: must(redisstore.NewBare(m.client, redisstore.Options{Namespace: m.run}))}
	return must(limiter.New(store, limiter.Options{Logger: silent})), store
}

func leased(a algo.Algorithm, requests int64, window time.Duration, lease int64) (*limiter.Limit, error) {
	return limiter.NewLimit(limiter.Limit{Name: "hot", Rate: algo.Rate{Algorithm: a, Requests: requests, Window: window}, Spread: limiter.Spread{Lease: lease}})
}

func (m *redisMeasure) leaseLine(ctx context.Context, a algo.Algorithm, lease int64) ([]figure, error) {
	limit, err := leased(a, endless, time.Minute, lease)
	if err != nil {
		return nil, err
	}
	workers := runtime.GOMAXPROCS(0)
	if lease == 0 {
		workers = redisCallers
	}
	charge := limiter.Charge{Subject: limiter.User(m.caller()), Limit: limit, Cost: 1}
	l, store := m.environment()
	all, failed, err := m.hotLoad(ctx, l, workers, charge)
	if err != nil {
		return nil, err
	}
	calls := figure(store.calls.Load())
	one, failedOne, err := m.hotLoad(ctx, l, 1, charge)
	if err != nil {
		return nil, err
	}
	over, err := m.leaseOver(ctx, a, min(lease, 50))
	seconds := figure(m.time.Seconds())
	return []figure{all / seconds / 1e6, one / seconds / 1e6, 1000 * calls / all, failed + failedOne, over}, err
}

// hotLoad runs decisions in several goroutines for a while. It returns the number of decisions.
func (m *redisMeasure) hotLoad(ctx context.Context, l *limiter.Limiter, workers int, charge limiter.Charge) (decisions, failed figure, err error) {
	var done, undecided atomic.Int64
	end := time.Now().Add(m.time)
	err = together(workers, func(int) error {
		charges := []limiter.Charge{charge}
		n, bad := int64(0), int64(0)
		for ctx.Err() == nil {
			now := time.Now()
			if now.After(end) {
				break
			}
			d, err := l.Take(ctx, now, charges)
			if err != nil {
				return err
			}
			if d.Reason != limiter.ReasonNone || !d.Allowed {
				bad++
			}
			n++
		}
		done.Add(n)
		undecided.Add(bad)
		return ctx.Err()
	})
	return figure(done.Load()), figure(undecided.Load()), err
}

// leaseOver returns the number of requests above the limit that ten environments admit in total.
func (m *redisMeasure) leaseOver(ctx context.Context, a algo.Algorithm, lease int64) (figure, error) {
	const requests, environments, goroutines = 1000, 10, 4
	limit, err := leased(a, requests, time.Hour, lease)
	if err != nil {
		return 0, err
	}
	subject := limiter.User(m.caller())
	var admitted atomic.Int64
	var all []*limiter.Limiter
	for range environments {
		l, _ := m.environment()
		all = append(all, l)
	}
	err = together(environments*goroutines, func(i int) error {
		charges := []limiter.Charge{{Subject: subject, Limit: limit, Cost: 1}}
		for range 4 * requests / environments / goroutines {
			if d, err := all[i%environments].Take(ctx, time.Now(), charges); err == nil && d.Allowed { // includes requests that on_error admits
				admitted.Add(1)
			}
		}
		return nil
	})
	return figure(max(0, admitted.Load()-requests)), err
}
