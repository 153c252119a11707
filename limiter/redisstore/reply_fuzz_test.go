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
	redis.Scripter
	reply any
	err   error
}

func (o *odd) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	return redis.NewCmdResult(o.reply, o.err)
}

func (o *odd) Get(context.Context, string) *redis.StringCmd {
	return redis.NewStringResult("", redis.Nil)
}

func (o *odd) Del(context.Context, ...string) *redis.IntCmd { return redis.NewIntResult(0, o.err) }

// FuzzStore_reply searches for a reply that breaks the store, or that the store wrongly accepts as a
// decision.
func FuzzStore_reply(f *testing.F) {
	limit := storetest.Limit(f, "a", algo.Rate{Requests: 10, Window: time.Minute})
	for form := range uint8(12) {
		f.Add(form, []byte("\x02\x00\x00\x00\x00\x00\x00\x00"), int64(1))
		f.Add(form, []byte("\x02\x01"), int64(0))
		f.Add(form, []byte(""), int64(-1))
	}
	who := limiter.User("fuzz")
	f.Fuzz(func(t *testing.T, form uint8, value []byte, n int64) {
		text := string(value)
		forms := []any{text, n, []any{text}, []any{}, []any{nil}, []any{n}, []any{text, n, nil}, nil, true, map[any]any{text: n},
			[]any{[]any{text}}, float64(n)}
		o := &odd{reply: forms[int(form)%len(forms)]}
		s := newStore(t, o, redisstore.Options{Namespace: "fuzz"})
		charges, results := []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}}, make([]algo.Result, 1)
		_, err := s.Take(ctx, noon, who, charges, results)
		switch {
		case err == nil && results[0].Machine == nil:
			t.Fatalf("%#v: got a decision without a machine, want one with a machine", o.reply)
		case err != nil && !errors.Is(err, limiter.ErrFormat) && !errors.Is(err, limiter.ErrContended) && !errors.Is(err, limiter.ErrUnavailable):
			t.Fatalf("%#v: got error %v, want an error of a store", o.reply, err)
		}
		results[0].Machine = limit.Machine()
		_, _ = s.Settle(ctx, 0, who, charges, results, 0)
		o.reply, o.err = nil, errors.New(text)
		if _, err := s.Take(ctx, noon, who, charges, results); !errors.Is(err, limiter.ErrUnavailable) {
			t.Fatalf("reply of Redis: got error %v, want ErrUnavailable", err)
		}
	})
}
