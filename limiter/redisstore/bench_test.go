package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// BenchmarkTake compares decisions of a Limiter with a script that does nothing, in one run: one caller,
// and 64 concurrent callers.
func BenchmarkTake(b *testing.B) {
	client := local(b)
	noop := redis.NewScript("return 1")
	l := storetest.Must(limiter.New(newStore(b, client, redisstore.Options{Namespace: "bench"}), limiter.Options{}))
	rates := []algo.Rate{{Algorithm: algo.TokenBucket, Requests: 1e9, Window: time.Second}, {Requests: 1e9, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 1e9, Window: time.Minute}}
	for _, callers := range []int{1, 64} {
		run := func(name string, decide func(id string) error) {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, name), func(b *testing.B) {
				b.ReportAllocs()
				one := func(next func() bool) {
					for next() {
						if err := decide(strconv.Itoa(rand.IntN(10_000))); err != nil {
							b.Error(err)
						}
					}
				}
				if callers == 1 {
					one(b.Loop)
					return
				}
				b.SetParallelism(callers / 2)
				b.RunParallel(func(pb *testing.PB) { one(pb.Next) })
			})
		}
		run("noop", func(id string) error { return noop.Run(ctx, client, []string{id}).Err() })
		for _, n := range []int{1, 3} {
			var template []limiter.Charge
			for i := range n {
				template = append(template, limiter.Charge{Limit: storetest.Limit(b, "l"+strconv.Itoa(i), rates[i]), Cost: 1})
			}
			run("limits="+strconv.Itoa(n), func(id string) error {
				charges, subject := make([]limiter.Charge, n), limiter.User(id)
				for i, c := range template {
					c.Subject = subject
					charges[i] = c
				}
				d, err := l.Take(ctx, time.Now(), charges)
				if err == nil && (!d.Allowed || d.Reason != limiter.ReasonNone) {
					err = fmt.Errorf("allowed: got %t for reason %q, want true", d.Allowed, d.Reason)
				}
				return err
			})
		}
	}
}

// A decision on one limit of a known caller makes at most 14 allocations, with those of the client and of the deadline.
func TestStore_calls_allocations(t *testing.T) {
	l := storetest.Must(limiter.New(newStore(t, local(t), redisstore.Options{Namespace: "bench"}), limiter.Options{}))
	charges := []limiter.Charge{{Subject: caller(), Limit: storetest.Limit(t, "l", algo.Rate{Requests: 1e9, Window: time.Minute}), Cost: 1}}
	n := testing.AllocsPerRun(500, func() {
		if d, err := l.Take(ctx, time.Now(), charges); err != nil || !d.Allowed || d.Reason != limiter.ReasonNone {
			t.Error(d, err)
		}
	})
	if n > 14 {
		t.Errorf("got %.1f allocations, want at most 14", n)
	}
}
