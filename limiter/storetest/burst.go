package storetest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testBurst sends requests of three tiers on 64 connections of two processes. Each is admitted up to its part of the limit,
// and together they use it exactly: each admission sees another count.
func testBurst(t *testing.T, s Suite) {
	limits := inTiers(algo.Rate{Algorithm: algo.FixedWindow, Window: time.Hour}, 1, 60, 90, 100)
	store, who, now := s.Open(t), subject(), start.Time()
	counts, mu, all := map[int64]bool{}, sync.Mutex{}, sync.WaitGroup{}
	processes := make([]*limiter.Limiter, 2)
	for i := range processes {
		processes[i] = Must(limiter.New(store, limiter.Options{Timeout: 900 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
	}
	send := func(process, tier int) bool {
		d := Must(processes[process].Take(context.Background(), now, []limiter.Charge{{Subject: who, Limit: limits[tier], Cost: 1}}))
		mu.Lock()
		defer mu.Unlock()
		used := d.Capacity - d.Remaining
		if d.Allowed && (d.Reason != limiter.ReasonNone || d.Remaining < 0 || counts[used]) {
			t.Errorf("tier %d: got %+v, want a count of its own, decided by the store", tier, d)
		}
		counts[used] = counts[used] || d.Allowed
		return d.Allowed
	}
	for i := range 64 {
		all.Go(func() {
			for k := range 10 {
				send(i%2, (i+k)%3)
			}
		})
	}
	all.Wait()
	for range 100 { // those that were refused because the item was busy
		send(0, 2)
	}
	delete(counts, 0)
	for used := range counts {
		if !counts[used] {
			delete(counts, used)
		}
	}
	if len(counts) != 100 || send(0, 2) {
		t.Errorf("got %d admitted, want 100, and then a refusal", len(counts))
	}
}
