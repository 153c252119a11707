package redisstore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The store does not search for idle limits if a value has few limits.
func TestStore_value_few(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "few"}), caller()
	for n := range 20 {
		l := storetest.Limit(t, "l"+strconv.Itoa(n), algo.Rate{Requests: 10, Window: time.Second, Counts: true})
		take(t, s, noon.Add(time.Duration(n/19)*2*time.Hour), limiter.Charge{Subject: who, Limit: l, Cost: 1})
	}
	if n := client.StrLen(ctx, "few/"+limiter.StateFormat+"/"+who.String()).Val(); n != 1+20*(13+int64(len("sliding/1s/10"))+18) {
		t.Errorf("length: got %d bytes, want 20 limits", n)
	}
}

// layout is the stored value, in hex, after the charges of layoutCharges at noon. layoutMarked is the
// same value with refunds, and with a Skew for every limit.
const (
	layout = "04100000000001736c6964696e672f316d30732f313030020000000000070414add000000000000003000000000000000f000000000266697865642f" +
		"316d3330732f3132330200000000000802b873e000000000000003000000000000000900000000036c6f672f31732f3130030000000000073901ff14" +
		"d06f8000000000033901ff14d06f80003901ff14d06f80003901ff14d06f8000160000000004736c6964696e672f3168306d30732f31303030303030" +
		"020000000000080011694c000000000000030000000000000015000000000566697865642f323468306d30732f313030303030300200000000000700" +
		"00b9b800000000000003000000000000000b00000000066275636b65742f36732f35010000000000083901ff190151b40000000000"
	layoutMarked = "04100000000001736c6964696e672f316d30732f31303082000000000007390161ebadd18000000000000414add00414add000000000000003000000" +
		"000000000f000000000266697865642f316d3330732f31323382000000000008390161ebadd180000000000002b873e002b873e00000000000000300" +
		"0000000000000900000000036c6f672f31732f313083000000000007390161ebadd180003901ff14d06f80003901ff14d06f8000000000033901ff14" +
		"d06f80003901ff14d06f80003901ff14d06f8000160000000004736c6964696e672f3168306d30732f3130303030303082000000000008390161ebad" +
		"d18000000000000011694c0011694c000000000000030000000000000015000000000566697865642f323468306d30732f3130303030303082000000" +
		"000007390161ebadd18000000000000000b9b80000b9b800000000000003000000000000000b00000000066275636b65742f36732f35810000000000" +
		"08390161ebadd180003901ff190151b4003901ff190151b40000000001"
)

// layoutCharges returns charges on a limit of every kind, with two versions of the rules. The last charge
// is on the bucket.
func layoutCharges(t *testing.T, who limiter.Subject) (charges []limiter.Charge) {
	t.Helper()
	for i, rate := range []algo.Rate{
		{Algorithm: algo.SlidingWindow, Requests: 100, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: 123, Window: 90 * time.Second},
		{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Second},
		{Algorithm: algo.SlidingWindow, Requests: 1_000_000, Window: time.Hour},
		{Algorithm: algo.FixedWindow, Requests: 1_000_000, Window: 24 * time.Hour},
		{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute, Burst: 5},
	} {
		l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "l", ID: limiter.ID(i + 1), Rate: rate, Version: int64(7 + i%2)}))
		charges = append(charges, limiter.Charge{Subject: who, Limit: l, Cost: 3})
	}
	return charges
}

// The layout of a value has not changed. A change needs another format, so that processes with different
// layouts use different keys.
func TestStore_value_layout(t *testing.T) {
	c, who := &canned{}, limiter.User("u")
	s := newStore(t, c, redisstore.Options{Namespace: "layout"})
	charges := layoutCharges(t, who)
	take(t, s, noon, charges...)
	c.value = c.replaced[0][:len(c.replaced[0])-1] + "\x01" // the bucket has a refund
	take(t, s, noon.Add(-time.Hour*48), charges...)
	for i, want := range []string{layout, layoutMarked} {
		if got := hex.EncodeToString([]byte(c.replaced[i])); got != want {
			t.Errorf("the layout changed: raise format\ngot  %s\nwant %s", got, want)
		}
	}
}

// The script take.lua writes the same layout as the Go code.
func TestStore_value_layoutScript(t *testing.T) {
	s, who := open(t, redisstore.Options{Namespace: "layout"}), caller()
	take(t, s, noon, layoutCharges(t, who)...)
	if got := hex.EncodeToString([]byte(local(t).Get(ctx, "layout/"+limiter.StateFormat+"/"+who.String()).Val())); got != layout {
		t.Errorf("the layout changed: raise format\ngot  %s\nwant %s", got, layout)
	}
}

// A settlement does not change a value that the store cannot read, and returns an error. A limit of an unknown kind is an error.
func TestStore_value_unreadable(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "refund"}), caller()
	key := "refund/" + limiter.StateFormat + "/" + who.String()
	charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute, Counts: true}),
		Cost: 3}}
	_, results := take(t, s, noon, charges...)
	good := client.Get(ctx, key).Val()
	for _, value := range []string{"\x01" + good[1:], "\x04x", "", good + "x", good[:23]} {
		if err := client.Set(ctx, key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(ctx, 0, who, charges, results, 0); errors.Is(err, limiter.ErrFormat) != (value != "") {
			t.Errorf("%q: got error %v, want ErrFormat unless the value is empty", value, err)
		}
		if now := client.Get(ctx, key).Val(); now != value {
			t.Errorf("value %q: got %q, want no change", value, now)
		}
	}
	at := len(good) - 18 - 6 - 1 // the kind, before the version and the state
	for _, kind := range []string{"\x00", "\x01", "\x03", "\x05", "\x82", "\xff"} {
		if err := client.Set(ctx, key, good[:at]+kind+good[at+1:], time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Inspect(ctx, who); !errors.Is(err, limiter.ErrFormat) {
			t.Errorf("kind %q: got error %v, want ErrFormat", kind, err)
		}
	}
	for _, parameters := range []string{"sliding/1m0s/x", "windows/1m0s/1", "shared-0-3/1m0"} { // as long as sliding/1m0s/10
		if err := client.Set(ctx, key, strings.Replace(good, "sliding/1m0s/10", parameters+" ", 1), time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Inspect(ctx, who); !errors.Is(err, limiter.ErrFormat) {
			t.Errorf("parameters %q: got error %v, want ErrFormat", parameters, err)
		}
	}
}

// The value keeps the parameters of every limit.
func TestStore_value_parameters(t *testing.T) {
	s, cost := open(t, redisstore.Options{Namespace: "parameters"}), limiter.Count{Of: limiter.CountCost}
	for _, requests := range []int64{1, 3, 7, 8, 10, 99, 100, 32_767, 32_768, 1_000_000, 123_456_789, 999_999_999, 1_000_000_000,
		algo.MaxAmount,
		algo.MaxAmount - 1} {
		for _, window := range []time.Duration{time.Second, 1_000_000_001, time.Minute, 90 * time.Second, time.Hour, 24 * time.Hour,
			algo.MaxWindow, algo.MaxWindow - time.Second, algo.MaxWindow - 1} {
			for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog} {
				l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: requests, Window: window, Burst: 1},
					Count: cost, Version: limiter.MaxVersion})
				if algorithm != algo.TokenBucket {
					l, err = limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: requests, Window: window},
						Count: cost, Version: limiter.MaxVersion})
				}
				if err != nil { // NewLimit rejects a log of this capacity
					continue
				}
				who := caller()
				take(t, s, noon, limiter.Charge{Subject: who, Limit: l, Cost: 1})
				entries, err := s.Inspect(ctx, who)
				if err != nil {
					t.Fatal(err)
				}
				if len(entries) != 1 || entries[0].Machine.Fingerprint() != l.Fingerprint() || entries[0].Version != limiter.MaxVersion {
					t.Errorf("%s: got %+v, want one entry with these parameters and the version %d", l.Fingerprint(), entries, limiter.MaxVersion)
				}
			}
		}
	}
}

// Windows with large counts are exact, also after a change to a smaller limit.
func TestStore_value_large(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
		s, who, model := open(t, redisstore.Options{Namespace: "large", Margin: 1}), caller(), storetest.Model{Margin: 1}
		limit := func(requests, version int64) *limiter.Limit {
			return storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: requests,
				Window: time.Minute}, Version: version}))
		}
		large, small, largest := limit(100_000, 1), limit(30_000, 2), limit(1_000_000, 3)
		for i, step := range []struct {
			limit  *limiter.Limit
			cost   int64
			after  time.Duration
			refund bool
		}{
			{large, 65_535, 0, false},
			{large, 1, 0, false},
			{large, 10_000, 0, true},
			{large, 70_000, time.Minute, false},
			{small, 1, time.Minute, false},
			{small, 1, time.Minute + 30*time.Second, false},
			{large, 20_000, time.Minute + 59*time.Second, true},
			{small, 30_000, 2 * time.Minute, true},
			{small, 1, 3 * time.Minute, true},
			{small, 20_000, 4 * time.Minute, false},
			{largest, 900_000, 4 * time.Minute, true},
			{largest, 1, 5 * time.Minute, false},
		} {
			charges, now := []limiter.Charge{{Subject: who, Limit: step.limit, Cost: step.cost}}, noon.Add(step.after)
			ok, results := take(t, s, now, charges...)
			wanted, want := model.Take(now, who, charges)
			if ok != wanted || results[0].State != want[0].State {
				t.Errorf("%s, step %d: got %t with %+v, want %t with %+v", algorithm, i, ok, results[0], wanted, want[0])
			}
			if !ok || !step.refund {
				continue
			}
			settled, err := s.Settle(ctx, 0, who, charges, results, 0)
			if wanted := model.Settle(0, who, charges, want, 0); err != nil || settled != wanted {
				t.Errorf("%s, step %d: got %d refunds, %v, want %d", algorithm, i, settled, err, wanted)
			}
		}
	}
}

// After algo.SlotNumbers slots, the next number can still be in use. The slot then gets the number after it, with a
// second command.
func TestStore_value_slotInUse(t *testing.T) {
	slotInUse(t) // the server gets the scripts
	if commands := slotInUse(t); commands != 2 {
		t.Errorf("got %d commands, want 2", commands)
	}
}

// slotInUse takes a slot whose number is in use, releases it, and returns the number of commands of the charge.
func slotInUse(t *testing.T) int64 {
	t.Helper()
	client := local(t)
	var calls atomic.Int64
	s, who := open(t, redisstore.Options{Namespace: "inuse"}, counter{&calls}), caller()
	charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Algorithm: algo.Concurrent, Requests: 5,
		Window: time.Minute}), Cost: 1}}
	take(t, s, noon, charges...)
	key := "inuse/" + limiter.StateFormat + "/" + who.String()
	first := string(algo.NewEntries(noon))
	value := strings.Replace(client.Get(ctx, key).Val(), first, string(algo.NewEntries(noon+algo.Instant(algo.SlotNumbers)-1)), 1)
	if err := client.Set(ctx, key, value, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	_, results := take(t, s, noon, charges...)
	commands := calls.Load()
	if want := algo.NewEntries(noon, noon+1); results[0].State.Entries != want {
		t.Errorf("got %q, want %q", results[0].State.Entries, want)
	}
	if settled, err := s.Settle(ctx, noon, who, charges, results, 0); err != nil || settled.Given != 1 {
		t.Errorf("release: got %+v and error %v, want one", settled, err)
	}
	if entries, err := s.Inspect(ctx, who); err != nil || len(entries) != 1 || string(entries[0].State.Entries) != first {
		t.Errorf("after the release: got %+v and error %v, want the first slot", entries, err)
	}
	return commands
}

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
