package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// A log that is converted to another algorithm leaves no entries behind.
func TestShard_logs(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	who, now := limiter.User("u"), algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	for i, c := range []struct {
		algorithm algo.Algorithm
		logs      int
	}{{algo.SlidingLog, 1}, {algo.TokenBucket, 0}, {algo.SlidingLog, 1}, {algo.SlidingWindow, 0}} {
		l, err := limiter.NewLimit(limiter.Limit{Name: "a", ID: limiter.NewID("a"), Version: int64(i), Rate: algo.Rate{Algorithm: c.algorithm, Requests: 10, Window: time.Hour, Counts: true}})
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Take(context.Background(), now, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, make([]algo.Result, 1)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		logs := 0
		for j := range s.shards {
			logs += len(s.shards[j].logs)
		}
		if logs != c.logs {
			t.Errorf("as a %s: got %d logs, want %d", c.algorithm, logs, c.logs)
		}
	}
}
