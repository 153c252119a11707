package limiter_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Every refusal of a limit with shards has the limit and a RetryAfter. The denial cache can have all
// shards, some or none, and another environment can charge the shards too.
func TestSpread_shards_limitReported(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket, algo.SlidingLog} {
		for _, trust := range []time.Duration{0, 20 * time.Millisecond, -1} {
			random := rand.New(rand.NewPCG(1, 2))
			store := newRemote()
			var all []*limiter.Limiter
			for range 3 {
				all = append(all, storetest.Must(limiter.New(store, limiter.Options{CacheTTL: trust, IntN: random.IntN})))
			}
			c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: 80,
				Window: time.Second}, Spread: limiter.Spread{Shards: 8}})}
			refused, unnamed := 0, 0
			for i := range 2000 {
				d := takeAt(t, all[random.IntN(len(all))], noon.Add(time.Duration(i)*time.Millisecond), c)
				if d.Allowed {
					continue
				}
				refused++
				if d.Limit != c.Limit || d.RetryAfter <= 0 {
					unnamed++
				}
			}
			if refused < 1200 || unnamed > 0 {
				t.Errorf("%s, CacheTTL %s: got %d of %d refusals without a limit, want 0", algorithm, trust, unnamed, refused)
			}
		}
	}
}

// A refusal has the shortest wait of the known shards, not the wait of the shard in the last call.
func TestSpread_shards_shortest(t *testing.T) {
	store, memory := newRemote(), storetest.Must(memstore.New(memstore.Options{}))
	store.Store = memory
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute, Burst: 4},
		Spread: limiter.Spread{Shards: 4}})
	c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
	parts := l.Subjects(user)
	alone := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 15, Window: time.Minute, Burst: 1}})
	// Each shard admits one request in 4 s: shard 0 has room in one second, and shard 3 in four.
	for i, ago := range []time.Duration{3, 2, 1, 0} {
		charges := []limiter.Charge{{Subject: parts[i], Limit: alone, Cost: 1}}
		if ok, err := memory.Take(ctx, algo.InstantOf(noon.Add(-ago*time.Second)), parts[i], charges, make([]algo.Result, 1)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for first := range 4 {
		e := storetest.Must(limiter.New(store, limiter.Options{IntN: func(int) int { return first }}))
		known := time.Hour
		for range 8 {
			d := takeAt(t, e, noon, c)
			// The first request calls two shards. Later refusals have at most the wait of the first one.
			if d.Allowed || d.Limit != l || d.RetryAfter > known {
				t.Fatalf("first shard %d: got %+v, want a refusal with a wait of at most %s", first, d, known)
			}
			known = d.RetryAfter
		}
		if known != time.Second {
			t.Errorf("first shard %d: got a wait of %s, want a second, the shortest of four", first, known)
		}
	}
}

// If one shard refuses and the store call for the next shard fails, the decision is the refusal.
func TestSpread_shards_failed(t *testing.T) {
	store := newRemote()
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 2, Window: time.Minute}, Spread: limiter.Spread{Shards: 2}})
	c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
	e := storetest.Must(limiter.New(store, limiter.Options{IntN: func(int) int { return 0 }, Logger: slog.New(slog.DiscardHandler)}))
	takeAt(t, e, noon, c)
	store.fail = map[limiter.Subject]error{l.Subjects(user)[1]: errors.Join(limiter.ErrUnavailable, limiter.ErrRejected)}
	d, err := storetest.Must(limiter.New(store, limiter.Options{IntN: func(int) int { return 0 },
		Logger: slog.New(slog.DiscardHandler)})).Take(ctx, noon, []limiter.Charge{c})
	if err != nil || d.Allowed || d.Limit != l || d.RetryAfter <= 0 {
		t.Errorf("got %+v, %v, want the refusal of the shard that answered", d, err)
	}
}
