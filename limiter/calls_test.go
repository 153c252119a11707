package limiter_test

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// If another limit refuses a request, a fast shared bucket is not charged, and there is no extra call. An
// admitted request charges both limits, each with one call.
func TestLimiter_Take_drain(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.TokenBucket} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := newRemote()
			l := storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1}))
			shared := limiter.Charge{Subject: limiter.Global(), Cost: 1, Limit: limit(t, limiter.Limit{Name: "shared", Global: true,
				Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Second}})}
			own := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "own", Rate: algo.Rate{Algorithm: algorithm,
				Requests: 60, Burst: burst(algorithm, 2), Window: time.Minute}})}
			if algorithm != algo.TokenBucket {
				own.Limit = perMinute(t, "own", 2)
			}
			for i := range 100 {
				d := take(t, l, shared, own)
				if allowed := i < 2; d.Allowed != allowed || allowed && d.StoreCalls != 2 || !allowed && d.StoreCalls != 1 {
					t.Fatalf("request %d: got %+v, want allowed %t, with two store calls if allowed and one otherwise", i, d, allowed)
				}
			}
			if d := take(t, l, limiter.Charge{Subject: shared.Subject, Limit: shared.Limit, Cost: 1000 - 2}); !d.Allowed {
				t.Errorf("got %+v, want only the two admitted requests charged on the shared bucket", d)
			}
		})
	}
}

func burst(a algo.Algorithm, n int64) int64 {
	if a == algo.TokenBucket {
		return n
	}
	return 0
}
