package limiter_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// What a store has no room for is no limit.
func TestNewLimit_mistakes(t *testing.T) {
	good := limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, ID: 1<<40 - 1, Version: limiter.MaxVersion}
	limit(t, good)
	for _, c := range []struct {
		field  string
		change func(*limiter.Limit)
	}{
		{"name", func(l *limiter.Limit) { l.Name = "A" }},
		{"window", func(l *limiter.Limit) { l.Rate.Window = time.Second - 1 }},
		{"requests", func(l *limiter.Limit) { l.Rate.Requests = 0 }},
		{"id", func(l *limiter.Limit) { l.ID = 1 << 40 }},
		{"version", func(l *limiter.Limit) { l.Version = limiter.MaxVersion + 1 }},
		{"version", func(l *limiter.Limit) { l.Version = -1 }},
	} {
		l := good
		c.change(&l)
		_, err := limiter.NewLimit(l)
		if mistake, ok := errors.AsType[*algo.FieldError](err); !ok || mistake.Field != c.field {
			t.Errorf("%s: got %v", c.field, err)
		}
	}
}

// An ID has 40 bits, all of them used, and its text is read back.
func TestID_bits(t *testing.T) {
	var all limiter.ID
	for _, part := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		id := limiter.NewID(part, "x")
		all |= id
		if back, err := limiter.ParseID(id.String()); err != nil || back != id || len(id.String()) != 8 {
			t.Errorf("%s is read as %s, %v", id, back, err)
		}
	}
	if all>>38 != 3 || all >= 1<<40 {
		t.Errorf("bits %x", uint64(all))
	}
	for _, text := range []string{"", "0123456", "012345678", "zzzzzzzz", "0123456*"} {
		if id, err := limiter.ParseID(text); err == nil {
			t.Errorf("%q is read as %s", text, id)
		}
	}
}

// A cost that no limit can hold, at a limit that was lowered, is refused for good, and an
// instant that no state can hold is a mistake.
func TestLimiter_Take_extremes(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog} {
		who := limiter.User(string(algorithm))
		made := func(version, requests int64) *limiter.Limit {
			return limit(t, limiter.Limit{Name: "a", Version: version, Rate: algo.Rate{Algorithm: algorithm, Requests: requests, Window: time.Minute}})
		}
		take(t, l, limiter.Charge{Subject: who, Limit: made(1, 300), Cost: 300})
		d := takeAt(t, l, noon.Add(time.Minute), limiter.Charge{Subject: who, Limit: made(2, 5), Cost: math.MaxInt64})
		if d.Allowed || d.RetryAfter != 0 {
			t.Errorf("%s: %+v", algorithm, d)
		}
	}
	for _, now := range []time.Time{{}, time.Unix(-1, 0), time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := l.Take(ctx, now, []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}})
		if !errors.Is(err, limiter.ErrInvalidCharge) {
			t.Errorf("at %s: got %v", now, err)
		}
	}
}

// An environment that gave its own charge back does not go on refusing from memory.
func TestReceipt_Refund(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})), storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		c := []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}}
		for range 3 {
			d, receipt, err := l.TakeRefundable(ctx, noon, c)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{Given: 1}) {
				t.Errorf("%+v, want one given back", done)
			}
			if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{}) {
				t.Errorf("the second time %+v", done)
			}
		}
		take(t, l, c...)
		d, receipt, err := l.TakeRefundable(ctx, noon, c)
		if err != nil || d.Allowed || receipt != nil {
			t.Fatal(d, receipt, err)
		}
		if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{}) {
			t.Errorf("of a refusal %+v", done)
		}
		if take(t, l, c...).Allowed {
			t.Error("a refusal gave something back")
		}
	}
}

// A look says what a request would get, and charges nothing.
func TestLimiter_Peek(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})), storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		c := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 10), Cost: 4}
		for range 3 {
			if d := mustPeek(t, l, noon, c); !d.Allowed || d.Remaining != 10 {
				t.Fatalf("fresh: %+v", d)
			}
		}
		take(t, l, c)
		take(t, l, c)
		got, want := mustPeek(t, l, noon, c), takeAt(t, l, noon, c)
		want.FromCache, want.StoreCalls, want.StoreTime = got.FromCache, got.StoreCalls, got.StoreTime
		if !reflect.DeepEqual(got, want) || got.Allowed {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.Cost = 2
		if d := mustPeek(t, l, noon, c); !d.Allowed || d.Remaining != 2 {
			t.Errorf("2 of the last 2: %+v", d)
		}
	}
}

// What is spent past a limit is a debt that refuses others.
func TestCharge_Force(t *testing.T) {
	for _, l := range []*limiter.Limiter{storetest.Must(limiter.New(newRemote(), limiter.Options{})), storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))} {
		a := perMinute(t, "a", 10)
		for i, want := range []int64{6, 2, 0, 0} {
			if d := take(t, l, limiter.Charge{Subject: user, Limit: a, Cost: 4, Force: true}); !d.Allowed || d.Remaining != want {
				t.Fatalf("spending %d: %+v", i, d)
			}
		}
		if d := take(t, l, limiter.Charge{Subject: user, Limit: a, Cost: 1}); d.Allowed {
			t.Fatalf("in debt: %+v", d)
		}
		// What is refused elsewhere in the request does not spend.
		b := perMinute(t, "b", 1)
		both := []limiter.Charge{{Subject: other, Limit: a, Cost: 1, Force: true}, {Subject: other, Limit: b, Cost: 1}}
		take(t, l, both...)
		if d := take(t, l, both...); d.Allowed || d.Limit != b {
			t.Fatalf("refused by the other: %+v", d)
		}
		if d := mustPeek(t, l, noon, limiter.Charge{Subject: other, Limit: a, Cost: 1}); d.Remaining != 9 {
			t.Errorf("the refused request spent: %+v", d)
		}
	}
}
