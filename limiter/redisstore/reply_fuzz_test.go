package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// odd is a Redis server whose scripts return unexpected replies.
type odd struct {
	reply string
	err   error
}

func (o *odd) Process(_ context.Context, cmd redis.Cmder) error {
	if cmd.Name() == "get" {
		return redis.Nil
	}
	if script, ok := cmd.(interface{ SetVal(text string) }); ok {
		script.SetVal(o.reply)
	}
	return o.err
}

// FuzzStore_reply searches for a reply that breaks the store, or that the store wrongly accepts as a
// decision.
func FuzzStore_reply(f *testing.F) {
	limit := storetest.Limit(f, "a", algo.Rate{Requests: 10, Window: time.Minute})
	for _, reply := range []string{"", "\x00", "\x01", "\x00\x04", "\x01\x04", "\x01\x04\x01", "\xff", ":1", "text"} {
		f.Add(reply)
	}
	who := limiter.User("fuzz")
	f.Fuzz(func(t *testing.T, reply string) {
		o := &odd{reply: reply}
		s := newStore(t, o, redisstore.Options{Namespace: "fuzz"})
		charges, results := []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}}, make([]algo.Result, 1)
		_, err := s.Take(ctx, noon, who, charges, results)
		switch {
		case err == nil && results[0].Machine == nil:
			t.Fatalf("%q: got a decision without a machine, want one with a machine", o.reply)
		case err != nil && !errors.Is(err, limiter.ErrFormat) && !errors.Is(err, limiter.ErrContended) && !errors.Is(err, limiter.ErrUnavailable):
			t.Fatalf("%q: got error %v, want an error of a store", o.reply, err)
		}
		results[0].Machine = limit.Machine()
		_, _ = s.Settle(ctx, 0, who, charges, results, 0)
		o.err = errors.New(reply)
		if _, err := s.Take(ctx, noon, who, charges, results); !errors.Is(err, limiter.ErrUnavailable) {
			t.Fatalf("reply of Redis: got error %v, want ErrUnavailable", err)
		}
	})
}
