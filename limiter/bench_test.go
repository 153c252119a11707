package limiter_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// BenchmarkLimiter_Take measures a decision with a store in memory.
func BenchmarkLimiter_Take(b *testing.B) {
	rate := algo.Rate{Requests: algo.MaxRequests, Window: time.Hour}
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("limits=%d", n), func(b *testing.B) {
			l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
			var charges []limiter.Charge
			for i := range n {
				charges = append(charges, limiter.Charge{Subject: user, Limit: limit(b, limiter.Limit{Name: string('a' + rune(i)), Rate: rate}),
					Cost: 1})
			}
			benchmarkTake(b, l, charges)
		})
	}
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		b.Run("from the ID, "+string(a), func(b *testing.B) {
			l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
			limit := limit(b, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: a, Requests: algo.MaxRequests, Window: time.Hour}})
			b.ReportAllocs()
			for b.Loop() {
				if d, err := l.Take(ctx, time.Now(), []limiter.Charge{{Subject: limiter.User("caller-00000001"), Limit: limit, Cost: 1}}); err != nil ||
					!d.Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
	b.Run("shared store", func(b *testing.B) { // a store that answers without delay
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		benchmarkTake(b, l, []limiter.Charge{{Subject: other, Limit: limit(b, limiter.Limit{Name: "a", Rate: rate}), Cost: 1}})
	})
	b.Run("leased", func(b *testing.B) {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		benchmarkTake(b, l, []limiter.Charge{{Subject: other,
			Limit: limit(b, limiter.Limit{Name: "a", Rate: rate, Spread: limiter.Spread{Lease: 10_000}}), Cost: 1}})
	})
	b.Run("leased parallel", func(b *testing.B) {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
		charges := []limiter.Charge{{Subject: other, Limit: limit(b, limiter.Limit{Name: "a", Rate: rate, Spread: limiter.Spread{Lease: 10_000}}),
			Cost: 1}}
		b.ReportAllocs()
		var n atomic.Int64
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if d, err := l.Take(ctx, noon.Add(time.Duration(n.Add(1))), charges); err != nil || !d.Allowed {
					b.Error(d, err)
				}
			}
		})
	})
}

func benchmarkTake(b *testing.B, l *limiter.Limiter, charges []limiter.Charge) {
	b.ReportAllocs()
	now := noon
	for b.Loop() {
		now = now.Add(time.Microsecond)
		if d, err := l.Take(ctx, now, charges); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}
