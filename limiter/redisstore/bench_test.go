package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// BenchmarkTake compares a decision with a script that does nothing, in one run.
func BenchmarkTake(b *testing.B) {
	client := local(b)
	noop := redis.NewScript("return 1")
	b.Run("noop", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := noop.Run(ctx, client, []string{"{noop}"}).Err(); err != nil {
					b.Error(err)
				}
			}
		})
	})
	s := newStore(b, client, redisstore.Options{Namespace: "bench"})
	for _, n := range []int{1, 3} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			who := caller()
			var charges []limiter.Charge
			for i := range n {
				rate := []algo.Rate{{Algorithm: algo.TokenBucket, Requests: 1e9, Window: time.Second}, {Requests: 1e9, Window: time.Minute}, {Algorithm: algo.FixedWindow, Requests: 1e9, Window: time.Minute}}[i]
				charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(b, "l"+strconv.Itoa(i), rate), Cost: 1})
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				results := make([]algo.Result, n)
				for pb.Next() {
					if ok, err := s.Take(ctx, noon, who, charges, results); err != nil || !ok {
						b.Errorf("allowed: got %t, %v, want true", ok, err)
					}
				}
			})
		})
	}
}
