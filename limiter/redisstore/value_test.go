package redisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A value holds at most 255 limits. A further limit is refused with ErrContended. The existing limits
// still work, also after a change.
func TestStore_value_full(t *testing.T) {
	var calls atomic.Int64
	s, who := open(t, redisstore.Options{Namespace: "full"}, counter{&calls}), caller()
	limit := func(n int, version int64) limiter.Charge {
		l, err := limiter.NewLimit(limiter.Limit{Name: "l" + strconv.Itoa(n), Rate: algo.Rate{Requests: 10 * version, Window: time.Hour}, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		return limiter.Charge{Subject: who, Limit: l, Cost: 1}
	}
	for n := range 255 {
		take(t, s, noon, limit(n, 1))
	}
	calls.Store(0)
	if take(t, s, noon, limit(7, 1)); calls.Load() != 1 {
		t.Errorf("an existing limit: got %d commands, want 1", calls.Load())
	}
	results := make([]algo.Result, 1)
	if ok, err := s.Take(ctx, noon, who, []limiter.Charge{limit(255, 1)}, results); ok || !errors.Is(err, limiter.ErrContended) {
		t.Errorf("limit 256: got allowed %t, error %v, want false, ErrContended", ok, err)
	}
	for _, version := range []int64{1, 2} {
		_, results := take(t, s, noon, limit(7, version))
		if left, want := results[0].Machine.Remaining(results[0].State, noon), 10*version-2-version; left != want {
			t.Errorf("version %d: got %d remaining, want %d", version, left, want)
		}
	}
}

// A limit that has no room in a value never admits requests without counting, for any on_error. The
// store has answered, so this is no outage.
func TestStore_value_overfull(t *testing.T) {
	l := storetest.Must(limiter.New(open(t, redisstore.Options{Namespace: "overfull"}), limiter.Options{}))
	who := caller()
	for n := range 300 {
		made, err := limiter.NewLimit(limiter.Limit{Name: "l" + strconv.Itoa(n), Rate: algo.Rate{Requests: 3, Window: time.Hour}, OnError: limiter.OnErrorAllow})
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for range 5 {
			d, err := l.Take(ctx, noon.Time(), []limiter.Charge{{Subject: who, Limit: made, Cost: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted++
			} else if n >= 255 && d.Reason != limiter.ReasonBusy {
				t.Fatalf("limit %d: reason %s", n, d.Reason)
			}
		}
		if want := 3; n < 255 && admitted != want || n >= 255 && admitted != 0 {
			t.Fatalf("limit %d: got %d of 5 admitted", n, admitted)
		}
	}
}

// The store does not search for idle limits if a value has few limits.
func TestStore_value_few(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "few"}), caller()
	for n := range 20 {
		l := storetest.Limit(t, "l"+strconv.Itoa(n), algo.Rate{Requests: 10, Window: time.Second})
		take(t, s, noon.Add(time.Duration(n/19)*2*time.Hour), limiter.Charge{Subject: who, Limit: l, Cost: 1})
	}
	if n := client.StrLen(ctx, "{few/1/"+who.String()+"}").Val(); n != 2+20*35 {
		t.Errorf("length: got %d bytes, want 20 records", n)
	}
}

// A value without limits is equal to the value of a subject that was never charged.
func TestStore_value_empty(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "empty"}), caller()
	l := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute})
	if err := client.Set(ctx, "{empty/1/"+who.String()+"}", "\x01\x00", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{11, 0, 10, 1} {
		if ok, _ := take(t, s, noon, limiter.Charge{Subject: who, Limit: l, Cost: cost}); ok != (cost == 0 || cost == 10) {
			t.Errorf("cost %d: got allowed %t", cost, ok)
		}
	}
}

// A refund does not change a value that the store cannot read. A limit of an unknown kind is an error.
func TestStore_value_unreadable(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "refund"}), caller()
	key := "{refund/1/" + who.String() + "}"
	charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 3}}
	_, results := take(t, s, noon, charges...)
	good := client.Get(ctx, key).Val()
	for _, value := range []string{"\x02" + good[1:], "\x01", "", "\x01\x02" + good[2:], good[:36]} {
		if err := client.Set(ctx, key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Refund(ctx, who, charges, results, 0); err != nil {
			t.Errorf("%q: %v", value, err)
		}
		if now := client.Get(ctx, key).Val(); now != value {
			t.Errorf("value %q: got %q, want no change", value, now)
		}
	}
	for _, kind := range []string{"\x00", "\x05", "\xff"} {
		if err := client.Set(ctx, key, good[:7]+kind+good[8:], time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Inspect(ctx, who); !errors.Is(err, limiter.ErrFormat) {
			t.Errorf("kind %q: got error %v, want ErrFormat", kind, err)
		}
	}
	if err := client.Set(ctx, key, "\x01\x01"+strings.Repeat("x", 35), time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inspect(ctx, who); !errors.Is(err, limiter.ErrFormat) {
		t.Errorf("got error %v, want ErrFormat", err)
	}
}

// The state of a log may be as far ahead as an honest clock allows. Such a state is decided in one
// command.
func TestStore_value_ahead(t *testing.T) {
	var calls atomic.Int64
	s := open(t, redisstore.Options{Namespace: "ahead"}, counter{&calls})
	for _, algorithm := range []algo.Algorithm{algo.SlidingLog, algo.SlidingWindow, algo.FixedWindow} {
		who := caller()
		charge := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Algorithm: algorithm, Requests: 10, Window: time.Second}), Cost: 1}
		take(t, s, noon, charge)
		calls.Store(0)
		if ok, _ := take(t, s, noon.Add(-5*time.Second), charge); !ok || calls.Load() != 1 {
			t.Errorf("%s: got allowed %t with %d commands", algorithm, ok, calls.Load())
		}
	}
}
