package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// canned is a Redis server that holds one value.
type canned struct {
	value    string
	charges  bool
	replaced []string

	replaceErr error
}

func (c *canned) Process(_ context.Context, cmd redis.Cmder) error {
	reply := cmd.(interface{ SetVal(text string) })
	switch args := cmd.Args(); {
	case cmd.Name() == "get":
		reply.SetVal(c.value)
	case len(args) == 7: // the call replaces the value
		c.replaced = append(c.replaced, args[5].(string))
		reply.SetVal("\x01")
		return c.replaceErr
	case c.charges:
		reply.SetVal("\x01" + c.value)
	default:
		reply.SetVal("\x00" + c.value)
	}
	return nil
}

// FuzzStore_value searches for a value that breaks the store, or that the store replaces with a value
// that it cannot read.
func FuzzStore_value(f *testing.F) {
	window := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute, Counts: true},
		Version: 2}))
	limits := []*limiter.Limit{window}
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingLog} {
		limits = append(limits, storetest.Limit(f, "a", algo.Rate{Algorithm: algorithm, Requests: 10, Window: time.Minute, Counts: true}))
	}
	who := limiter.User("fuzz")
	for _, l := range limits { // seeds: the values that the store creates from an empty value
		c := &canned{}
		s := newStore(f, c, redisstore.Options{Namespace: "fuzz"})
		if _, err := s.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 3}}, make([]algo.Result, 1)); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(c.replaced[0]), int64(3), false, true)
		f.Add([]byte(c.replaced[0]), int64(11), true, false)
		f.Add([]byte(c.replaced[0][:20]), int64(1), true, false)
	}
	f.Add([]byte("\x04"), int64(1), false, false)
	// The number of entries of this log is too high: the value contains only a part of one entry.
	f.Add([]byte("\x04\x08;\x19o\xd4\x90log/1s/9\x03"+strings.Repeat("\x00", 6)+strings.Repeat("0", 8)+"\x00\x00\x00\x02"+strings.Repeat("0",
		12)), int64(26), false, true)
	f.Add([]byte("\x04\xff"), int64(0), false, false)
	f.Fuzz(func(t *testing.T, value []byte, cost int64, spend, charges bool) {
		c := &canned{value: string(value), charges: charges}
		s := newStore(t, c, redisstore.Options{Namespace: "fuzz"})
		entries, err := s.Inspect(ctx, who)
		readable := err == nil
		if err != nil && !errors.Is(err, limiter.ErrFormat) {
			t.Fatalf("%x: got error %v, want ErrFormat", value, err)
		}
		for _, l := range limits {
			charge := limiter.Charge{Subject: who, Limit: l, Cost: max(0, cost), Force: spend}
			results := make([]algo.Result, 1)
			_, err := s.Take(ctx, noon, who, []limiter.Charge{charge}, results)
			if err != nil && (readable || !errors.Is(err, limiter.ErrFormat)) {
				t.Fatalf("%x with %+v: got error %v, want ErrFormat, or none for a readable value", value, entries, err)
			}
			if err == nil && results[0].Machine == nil {
				t.Fatalf("%x: got a decision without a machine, want one with a machine", value)
			}
		}
		for _, c.value = range c.replaced {
			if _, err := s.Inspect(ctx, who); err != nil && readable {
				t.Errorf("%x: got the replacement %x, which the store cannot read: %v", value, c.value, err)
			}
		}
	})
}

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
