package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

func TestStore(t *testing.T) {
	users, namespace := deployed(t), "test-"+rand.Text()
	storetest.Run(t, storetest.Suite{
		Open: func(t *testing.T) limiter.Store {
			return users.open(t, redisstore.Options{Namespace: namespace, Margin: 50 * time.Millisecond})
		},
		Margin: 50 * time.Millisecond,
	})
}

var (
	ctx  = context.Background()
	noon = algo.InstantOf(time.Date(2100, 3, 4, 12, 0, 0, 0, time.UTC))
)

func caller() limiter.Subject { return limiter.User("redis-" + rand.Text()) }

func take(t *testing.T, s limiter.Store, now algo.Instant, charges ...limiter.Charge) (bool, []algo.Result) {
	t.Helper()
	results := make([]algo.Result, len(charges))
	ok, err := s.Take(ctx, now, charges[0].Subject, charges, results)
	if err != nil {
		t.Fatal(err)
	}
	return ok, results
}

// A decision is one command for any number of limits. A script that is new to the server costs a
// second command.
func TestStore_calls(t *testing.T) {
	client := local(t)
	var calls atomic.Int64
	s, who := open(t, redisstore.Options{Namespace: "calls"}, counter{&calls}), caller()
	var charges []limiter.Charge
	for i, rate := range []algo.Rate{{Requests: 10, Window: time.Minute}, {Requests: 10, Window: time.Minute, Algorithm: algo.FixedWindow},
		{Requests: 10, Window: time.Minute, Algorithm: algo.TokenBucket}} {
		charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "l"+strconv.Itoa(i), rate), Cost: 1})
	}
	take(t, s, noon, charges...)
	calls.Store(0)
	for range 20 { // each limit of 10 admits nine more requests
		take(t, s, noon, charges...)
	}
	if n := calls.Load(); n != 20 {
		t.Errorf("20 decisions over 3 limits: got %d commands, want 20", n)
	}
	if err := client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	if ok, _ := take(t, s, noon.Add(time.Hour), charges...); !ok || calls.Load() != 2 {
		t.Errorf("after SCRIPT FLUSH: got allowed %t with %d commands, want true with 2", ok, calls.Load())
	}
}

// A decision is one command at the instant at which the answer changes, and a nanosecond before and
// after. The value has several logs. A second command would mean that the script could not decide.
func TestStore_calls_critical(t *testing.T) {
	var calls atomic.Int64
	s := open(t, redisstore.Options{Namespace: "critical"}, counter{&calls})
	const half = 1 << 32 // ns; at a multiple, the upper 32 bits of an instant change
	for i, algorithm := range []algo.Algorithm{algo.SlidingLog, algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow} {
		who, now := caller(), noon-noon%half
		var charges []limiter.Charge
		for j, a := range []algo.Algorithm{algo.SlidingLog, algorithm, algo.SlidingLog} {
			limit := storetest.Limit(t, "l"+strconv.Itoa(j), algo.Rate{Algorithm: a, Requests: 8, Window: 4 * half, Counts: true})
			charges = append(charges, limiter.Charge{Subject: who, Limit: limit, Cost: 1})
		}
		results := make([]algo.Result, 3)
		for n := range 200 {
			charges[0].Cost, charges[1].Cost, charges[2].Cost = int64((n+i)%2), int64(1+n%2), int64((n+1)%3/2)
			calls.Store(0)
			ok, err := s.Take(ctx, now, who, charges, results)
			if err != nil {
				t.Fatal(err)
			}
			if c := calls.Load(); c != 1 && n > 0 {
				t.Fatalf("%s, decision %d: got %d commands (allowed %t), want 1", algorithm, n, c, ok)
			}
			wait := time.Duration(0)
			for j, c := range charges {
				wait = max(wait, results[j].Machine.RetryAfter(results[j].State, now, c.Cost))
			}
			now = now.Add(max(0, wait+time.Duration(n%3-1))) // the critical instant, or a nanosecond before or after it
			if n%11 == 0 {
				now = now.Add(-half)
			}
		}
	}
}

type counter struct{ n *atomic.Int64 }

func (counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" { // the handshake of a new connection
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline as one command, because it is one round trip.
func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, commands)
	}
}

// A value has the parameters of each limit as text, and 31 bytes for a window. The key
// expires at most a quarter later than a limit needs it.
func TestStore_value(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "value"}), caller()
	day := storetest.Limit(t, "day", algo.Rate{Requests: 10, Window: 24 * time.Hour, Counts: true})
	minute := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "minute", Rate: algo.Rate{Requests: 10, Window: time.Minute, Counts: true},
		Horizon: day.Horizon, Version: 1}))
	key := "value/" + limiter.StateFormat + "/" + who.String()
	size := 1
	for i, l := range []*limiter.Limit{day, minute} {
		take(t, s, noon, limiter.Charge{Subject: who, Limit: l, Cost: 1})
		size += 31 + len(l.Fingerprint())
		if n := client.StrLen(ctx, key).Val(); n != int64(size) {
			t.Errorf("got %d bytes with %d limits, want %d", n, i+1, size)
		}
		if ttl := client.PTTL(ctx, key).Val(); ttl <= 48*time.Hour || ttl > 60*time.Hour+75*time.Second {
			t.Errorf("expiry: got %s, want two days and a minute, to a quarter more", ttl)
		}
	}
	charges := []limiter.Charge{{Subject: who, Limit: day, Cost: 1}}
	_, results := take(t, s, noon, charges...)
	if _, err := s.Settle(ctx, 0, who, charges, results, 0); err != nil {
		t.Fatal(err)
	}
	if ttl := client.PTTL(ctx, key).Val(); ttl <= 48*time.Hour {
		t.Errorf("after a refund: got an expiry in %s, want more than 48 hours", ttl)
	}
}

// The value of a caller stays small after a thousand visits. No write of a short limit shortens the
// life of the count of a day.
func TestStore_value_algorithms(t *testing.T) {
	client := local(t)
	s := open(t, redisstore.Options{Namespace: "values"})
	day := storetest.Limit(t, "day", algo.Rate{Requests: 1000, Window: 24 * time.Hour})
	algorithms := []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog}
	for i, algorithm := range algorithms {
		who := caller()
		key := "values/" + limiter.StateFormat + "/" + who.String()
		var short []*limiter.Limit
		for j, a := range []algo.Algorithm{algorithm, algorithms[(i+1)%len(algorithms)]} {
			l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "short", Rate: algo.Rate{Algorithm: a, Requests: 20, Window: 10 * time.Second},
				Version: int64(j + 1), Horizon: day.Horizon}))
			short = append(short, l)
		}
		now, largest := noon, int64(0)
		take(t, s, now, limiter.Charge{Subject: who, Limit: day, Cost: 1})
		for n := range 1000 {
			now = now.Add(time.Duration(n%7) * 150 * time.Millisecond)
			charge := limiter.Charge{Subject: who, Limit: short[n/500], Cost: int64(n % 4), Force: n%40 == 0}
			ok, results := take(t, s, now, charge)
			if ok && n%5 == 0 {
				if _, err := s.Settle(ctx, 0, who, []limiter.Charge{charge}, results, 0); err != nil {
					t.Fatal(err)
				}
			}
			largest = max(largest, client.StrLen(ctx, key).Val())
			if ttl := client.PTTL(ctx, key).Val(); ttl <= 48*time.Hour {
				t.Fatalf("%s, visit %d: got an expiry in %s, want more than 48 hours", algorithm, n, ttl)
			}
		}
		if largest > 1024 {
			t.Errorf("%s: got a value of %d bytes, want at most 1024", algorithm, largest)
		}
	}
}

// An environment with older rules does not shorten the life of a count, even if the environment only
// refuses requests. The older rules have a shorter window for the limit, or do not have the limit.
func TestStore_value_olderRules(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "older"}), caller()
	made := func(l limiter.Limit) *limiter.Limit {
		return storetest.Must(limiter.NewLimit(l))
	}
	for _, rate := range []algo.Rate{
		{Requests: 10, Window: 30 * 24 * time.Hour, Counts: true},
		{Requests: 10, Window: 90 * 24 * time.Hour, Algorithm: algo.TokenBucket},
		{Requests: 10, Window: 30 * 24 * time.Hour, Algorithm: algo.SlidingLog},
	} {
		who := who.And(limiter.User(string(rate.Algorithm)))
		month := made(limiter.Limit{Name: "a", Version: 2, Rate: rate})
		older := made(limiter.Limit{Name: "a", Version: 1, Rate: algo.Rate{Requests: 10, Window: time.Second, Counts: true}})
		another := made(limiter.Limit{Name: "b", Version: 1, Rate: algo.Rate{Requests: 10, Window: time.Second, Counts: true}})
		changed := made(limiter.Limit{Name: "b", Version: 2, Rate: algo.Rate{Requests: 1, Window: time.Second}})
		for i, limit := range []*limiter.Limit{month, older, another, changed} {
			cost := int64(5)
			take(t, s, noon.Add(time.Duration(i)), limiter.Charge{Subject: who, Limit: limit, Cost: min(cost, limit.MaxCost())})
			if ttl := client.PTTL(ctx, "older/"+limiter.StateFormat+"/"+who.String()).Val(); ttl < 30*24*time.Hour {
				t.Errorf("%s, after %s of version %d: got an expiry in %s, want at least 30 days", month.Fingerprint(), limit.Name, limit.Version, ttl)
			}
		}
	}
}

// Concurrent callers with older rules do not cause additional calls: after the first answer, each
// decision is one call.
func TestStore_olderRules(t *testing.T) {
	s := open(t, redisstore.Options{Namespace: "crowd"})
	older := storetest.Limit(t, "a", algo.Rate{Requests: 100, Window: time.Minute})
	newer := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", ID: older.ID, Rate: algo.Rate{Requests: 1000, Window: time.Minute},
		Version: 2}))
	who := caller()
	take(t, s, noon, limiter.Charge{Subject: who, Limit: newer, Cost: 1})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			results := make([]algo.Result, 1)
			for range 10 {
				if ok, err := s.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: older, Cost: 1}}, results); !ok || err != nil {
					t.Error(ok, err)
				}
			}
		})
	}
	wg.Wait()
	if _, results := take(t, s, noon, limiter.Charge{Subject: who, Limit: newer, Cost: 0}); results[0].State.Count != 641 {
		t.Errorf("count: got %d, want 641", results[0].State.Count)
	}
}

// In a value with many limits, the store removes the limits that the rules no longer have,
// after an idle hour.
func TestStore_tidy(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "tidy"}), caller()
	for i := range 25 {
		take(t, s, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i),
			algo.Rate{Requests: 10, Window: time.Second, Counts: true}), Cost: 1})
	}
	stays := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "stays", algo.Rate{Requests: 10, Window: time.Hour, Counts: true}),
		Cost: 1}
	length := func() int64 { return client.StrLen(ctx, "tidy/"+limiter.StateFormat+"/"+who.String()).Val() }
	take(t, s, noon.Add(time.Hour), stays)
	one := 31 + int64(len(stays.Limit.Fingerprint()))
	if all := 1 + 25*(31+int64(len("sliding/1s/10"))) + one; length() != all {
		t.Errorf("length: got %d bytes, want %d, because no limit has been idle for an hour", length(), all)
	}
	take(t, s, noon.Add(time.Hour+2*time.Second), stays)
	if length() != 1+one {
		t.Errorf("length: got %d bytes, want one limit", length())
	}
	if _, results := take(t, s, noon.Add(time.Hour+2*time.Second), stays); results[0].Machine.Remaining(results[0].State,
		noon.Add(time.Hour+2*time.Second)) != 7 {
		t.Errorf("the remaining limit: got %+v, want 7 remaining", results)
	}
}

// A state that was too far in the future has a Skew. When the store removes an idle limit,
// it also removes its Skew.
func TestStore_tidy_mark(t *testing.T) {
	client := local(t)
	s, who := open(t, redisstore.Options{Namespace: "marks"}), caller()
	charge := func(name string, window time.Duration) limiter.Charge {
		return limiter.Charge{Subject: who, Limit: storetest.Limit(t, name, algo.Rate{Requests: 10, Window: window, Counts: true}), Cost: 1}
	}
	for _, c := range []limiter.Charge{charge("gone", time.Second), charge("stays", 10*time.Hour)} {
		take(t, s, noon.Add(10*time.Hour), c)
		take(t, s, noon, c)
	}
	for i := range 25 {
		take(t, s, noon, charge("gone"+strconv.Itoa(i), time.Second))
	}
	take(t, s, noon.Add(12*time.Hour), charge("last", time.Second))
	if n := client.StrLen(ctx, "marks/"+limiter.StateFormat+"/"+who.String()).Val(); n != 1+
		31+int64(len("sliding/10h0m0s/10"))+16+31+int64(len("sliding/1s/10")) {
		t.Errorf("length: got %d bytes, want two limits and a Skew", n)
	}
	entries, err := s.Inspect(ctx, who)
	if err != nil {
		t.Fatal(err)
	}
	skews := 0
	for _, e := range entries {
		if e.Skew.Since == noon {
			skews++
		}
	}
	if len(entries) != 2 || skews != 1 {
		t.Errorf("got %d limits with %d Skews, want 2 with 1: %+v", len(entries), skews, entries)
	}
}

// A settlement above the reserve gives the key the life that the limit needs. It does not shorten the life
// that another limit needs.
func TestStore_Settle_ttl(t *testing.T) {
	client := local(t)
	s := open(t, redisstore.Options{Namespace: "settled"})
	short := storetest.Limit(t, "short", algo.Rate{Requests: 10, Window: time.Hour, Counts: true})
	day := storetest.Limit(t, "day", algo.Rate{Requests: 10, Window: 24 * time.Hour, Counts: true})
	for name, c := range map[string]struct {
		limits []*limiter.Limit
		left   time.Duration
		want   time.Duration
	}{
		"the key would expire too early": {[]*limiter.Limit{short}, time.Second, 2 * time.Hour},
		"another limit needs the key":    {[]*limiter.Limit{short, day}, 48 * time.Hour, 47 * time.Hour},
	} {
		who := caller()
		key := "settled/" + limiter.StateFormat + "/" + who.String()
		var charges []limiter.Charge
		for _, l := range c.limits {
			charges = append(charges, limiter.Charge{Subject: who, Limit: l, Cost: 1})
		}
		_, results := take(t, s, noon, charges...)
		if err := client.PExpire(ctx, key, c.left).Err(); err != nil {
			t.Fatal(err)
		}
		more := []limiter.Charge{{Subject: who, Limit: short, Cost: 1, Force: true}}
		if _, err := s.Settle(ctx, noon, who, more, results[:1], 0); err != nil {
			t.Fatal(err)
		}
		if ttl := client.PTTL(ctx, key).Val(); ttl < c.want {
			t.Errorf("%s: got an expiry in %s, want at least %s", name, ttl, c.want)
		}
	}
}

// The store returns ErrFormat for a value that it cannot read, and does not change the value.
func TestStore_unreadable(t *testing.T) {
	client := local(t)
	s := open(t, redisstore.Options{Namespace: "bad"})
	l := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute, Counts: true})
	for _, value := range []string{
		"\x01\x01" + strings.Repeat("x", 22), "\x04x", "text", "\x04\x01" + strings.Repeat("x", 22), "\x04" + strings.Repeat("\x00", 20),
		"\x04" + strings.Repeat("\x00", 6) + "\x02" + strings.Repeat("x", 23),
		"\x04" + strings.Repeat("\x00", 6) + "\x02" + strings.Repeat("x", 25),
	} {
		who := caller()
		key := "bad/" + limiter.StateFormat + "/" + who.String()
		if err := client.Set(ctx, key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 11}}, make([]algo.Result, 1))
		if !errors.Is(err, limiter.ErrFormat) {
			t.Errorf("%q: got error %v, want ErrFormat", value, err)
		}
		_, err = s.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, make([]algo.Result, 1))
		if err == nil {
			t.Errorf("%q: got no error, want one", value)
		}
		if now := client.Get(ctx, key).Val(); now != value {
			t.Errorf("value %q: got %q, want no change", value, now)
		}
	}
	if err := client.LPush(ctx, "bad/"+limiter.StateFormat+"/user:list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	who := limiter.User("list")
	if _, err := s.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, make([]algo.Result, 1)); !errors.Is(err,
		limiter.ErrFormat) {
		t.Errorf("key of another type: got error %v, want ErrFormat", err)
	}
	client.Del(ctx, "bad/"+limiter.StateFormat+"/user:list")
}

// Scripts use only what ElastiCache Serverless allows: declared keys and no clock.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) != 4 {
		t.Fatalf("scripts: got %v, %v, want four files", files, err)
	}
	call := regexp.MustCompile(`redis\.p?call\(([^)]*)\)`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range call.FindAllStringSubmatch(string(source), -1) {
			if args := strings.Split(match[1], ", "); len(args) < 2 || !slices.Contains([]string{"'GET'", "'SET'", "'PTTL'"}, args[0]) ||
				args[1] != "KEYS[1]" {
				t.Errorf("%s: got %s, want GET, SET or PTTL with KEYS[1]", file, match[0])
			}
		}
	}
}

// The first decision reads the server's time without an additional round trip. This holds on one server,
// in a cluster, and for a script that is new to the server.
func TestStore_ClockSkew(t *testing.T) {
	for _, kind := range []string{"server", "cluster"} {
		var trips atomic.Int64
		var u users
		if kind == "cluster" {
			_, u = cluster(t)
		} else {
			u = deployed(t)
			u.function.AddHook(counter{&trips})
		}
		s := newStore(t, u.function, redisstore.Options{Namespace: "skew-" + rand.Text()})
		if _, _, ok := s.ClockSkew(); ok {
			t.Error("skew before any call: got a known skew, want unknown")
		}
		who := caller()
		charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 1}}
		for range 2 {
			if ok, err := s.Take(ctx, noon, who, charges, make([]algo.Result, 1)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		ahead, uncertainty, ok := s.ClockSkew()
		if !ok || ahead.Abs() > uncertainty+time.Millisecond {
			t.Errorf("%s: skew: got %s ± %s (known %t), want 0 on one machine", kind, ahead, uncertainty, ok)
		}
		if n := trips.Load(); kind == "server" && (n < 2 || n > 3) { // a new script needs EVAL, which is an additional round trip
			t.Errorf("two decisions: got %d round trips, want 2 or 3", n)
		}
	}
}

// If the access list denies TIME, there is no skew estimate, and decisions still succeed.
func TestStore_ClockSkew_denied(t *testing.T) {
	server := local(t)
	access := strings.ReplaceAll(redisstore.AccessString(redisstore.Commands()...), " +time", "")
	if err := server.Do(ctx, anyOf("acl setuser timeless >secret "+access)...).Err(); err != nil {
		t.Fatal(err)
	}
	o := *server.Options()
	o.Username, o.Password, o.DisableIdentity = "timeless", "secret", true
	client := redis.NewClient(&o)
	s, who := newStore(t, client, redisstore.Options{Namespace: "timeless"}), caller()
	take(t, s, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 1})
	if _, _, ok := s.ClockSkew(); ok {
		t.Error("skew without TIME: got a known skew, want unknown")
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := server.ACLDelUser(context.WithoutCancel(ctx), "timeless").Err(); err != nil {
		t.Error(err)
	}
}
