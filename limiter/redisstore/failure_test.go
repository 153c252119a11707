package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// NewBare rejects every kind of client that ignores deadlines. It also rejects options that are out of
// range.
func TestNewBare(t *testing.T) {
	clients := func(obeys bool) map[string]redis.UniversalClient {
		return map[string]redis.UniversalClient{
			"server":   redis.NewClient(&redis.Options{ContextTimeoutEnabled: obeys}),
			"cluster":  redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: obeys}),
			"ring":     redis.NewRing(&redis.RingOptions{ContextTimeoutEnabled: obeys}),
			"failover": redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", ContextTimeoutEnabled: obeys}),
			"any":      redis.NewUniversalClient(&redis.UniversalOptions{ContextTimeoutEnabled: obeys}),
		}
	}
	for _, obeys := range []bool{true, false} {
		for kind, client := range clients(obeys) {
			if s, err := redisstore.NewBare(client, redisstore.Options{Namespace: "n"}); (err == nil) != obeys || (s == nil) == obeys {
				t.Errorf("%s, ContextTimeoutEnabled %t: got %v, error %v, want a store only if the client obeys deadlines", kind, obeys, s, err)
			} else if err != nil && !strings.Contains(err.Error(), "ContextTimeoutEnabled") {
				t.Errorf("%s: got error %v, want one that names ContextTimeoutEnabled", kind, err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	client := &odd{}
	for want, o := range map[string]redisstore.Options{
		"":          {Namespace: "n", Margin: time.Second},
		"Namespace": {},
		"Margin":    {Namespace: "n", Margin: -1},
	} {
		if _, err := redisstore.NewBare(client, o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got error %v, want an error with %q", o, err, want)
		}
	}
	if _, err := redisstore.NewBare(nil, redisstore.Options{Namespace: "n"}); err == nil {
		t.Error("no client: got no error, want one")
	}
}

// The documented ways to open a store make it resilient. Close closes only the client of Open.
func TestOpen(t *testing.T) {
	client, err := redisstore.NewClient("redis://127.0.0.1:1", redisstore.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*resilient.Store, error){
		"Open": func() (*resilient.Store, error) {
			return redisstore.Open("redis://127.0.0.1:1", redisstore.Options{Namespace: "n"})
		},
		"New": func() (*resilient.Store, error) { return redisstore.New(client, redisstore.Options{Namespace: "n"}) },
	} {
		s, err := open()
		if err != nil || s.Timeout() != 50*time.Millisecond {
			t.Fatalf("%s: got %v, error %v, want a store with a deadline of 50 ms", name, s, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		if _, err := s.Inspect(t.Context(), limiter.User("u")); errors.Is(err, redis.ErrClosed) != (name == "Open") {
			t.Errorf("%s: after Close: got error %v, want a closed client only after Open", name, err)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for address, want := range map[string]string{"http://h": "redisstore: invalid URL", "redis://u:p#w@h": "redisstore: invalid URL",
		"redis://h:6379": "redisstore: Namespace: required"} {
		if s, err := redisstore.Open(address, redisstore.Options{}); s != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", address, err, want)
		}
	}
}

// A wrong address shows at once, and not at the first request.
func TestOpen_noServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := openAt(t, "127.0.0.1:1", &log)
		synctest.Wait()
		if got := log.String(); !strings.Contains(got, "gives no answer") || strings.Contains(got, "secret") {
			t.Errorf("got log %q", got)
		}
		_ = s.Close()
	})
}

// A server that can evict counts shows at once, if its access list allows INFO.
func TestOpen_evicts(t *testing.T) {
	for policy, answer := range map[string]string{"allkeys-lru": "", "volatile-ttl": "", "noeviction": "",
		"forbidden": "-NOPERM User u has no permissions to run the 'info' command\r\n"} {
		info := "# Memory\r\nused_memory:1\r\nmaxmemory_policy:" + policy + "\r\nallocator_frag_ratio:1\r\n"
		n := &node{seen: map[string]int{}, answers: map[string][]string{"hello": {"%0\r\n"}, "get": {"$-1\r\n"},
			"info": {cmp.Or(answer, fmt.Sprintf("$%d\r\n%s\r\n", len(info), info))}}}
		client := redis.NewClient(&redis.Options{Addr: "host:6379", Dialer: n.dial, ContextTimeoutEnabled: true})
		got := newStore(t, client, redisstore.Options{Namespace: "n"}).Warning(t.Context())
		if want := answer == "" && policy != "noeviction"; strings.Contains(got, "maxmemory-policy is "+policy+"; set noeviction") != want ||
			(got == "") == want {
			t.Errorf("%s: got warning %q, want one: %t", policy, got, want)
		}
		var log lines
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go n.serve(c)
			}
		}()
		s := openAt(t, l.Addr().String(), &log)
		await(t, "the store asked for the policy", func() bool { return n.count("info") == 2 })
		if got != "" {
			await(t, "the warning is logged", func() bool { return strings.Count(log.text(), policy) == 1 })
		}
		_, _, _ = client.Close(), s.Close(), l.Close()
		if got == "" && log.text() != "" {
			t.Errorf("%s: got log %s, want none", policy, log.text())
		}
	}
}

// lines is a log that a goroutine writes.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// After Close nothing of the store runs, so nothing logs. Each round closes at another moment of the first call.
func TestOpen_closed(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			if err := openAt(t, "127.0.0.1:1", &log).Close(); err != nil {
				t.Fatal(err)
			}
			closed := log.String()
			synctest.Wait()
			if got := log.String(); got != closed {
				t.Fatalf("after Close: got log %q", strings.TrimPrefix(got, closed))
			}
		})
	}
}

func openAt(t *testing.T, address string, log io.Writer) *resilient.Store {
	s, err := redisstore.Open("redis://u:secret@"+address, redisstore.Options{Namespace: "n", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Replies about one key are answers, so a circuit breaker does not count them as failures. Replies
// about every key are failures. The texts are those of Redis 7.0 and Valkey 8.
func TestFailure(t *testing.T) {
	limit := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute})
	who := limiter.User("u")
	for _, c := range []struct {
		err      error
		want     error
		answered bool
	}{
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value script: 0884a443, on @user_script:29."), limiter.ErrFormat,
			true},
		{reply("ERR user_script:12: bad argument #1 to 'unpack' (string expected, got nil) script: 02660d9e, on @user_script:12."),
			limiter.ErrRejected, true},
		{reply("ERR Error running script (call to f_02660d9e): @user_script:12: user_script:12: too many results to unpack"), limiter.ErrRejected,
			true},
		{reply("ERR string exceeds maximum allowed size (proto-max-bulk-len)"), limiter.ErrRejected, true},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), limiter.ErrRejected, true},
		{reply("OOM command not allowed when used memory > 'maxmemory'. script: db8d8f63, on @user_script:126."), limiter.ErrFull, true},
		{reply("LOADING Redis is loading the dataset in memory"), limiter.ErrUnavailable, false},
		{reply("READONLY You can't write against a read only replica. script: db8d8f63, on @user_script:126."), limiter.ErrUnavailable, false},
		{reply("CLUSTERDOWN The cluster is down"), limiter.ErrUnavailable, false},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), limiter.ErrUnavailable, false},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), limiter.ErrUnavailable, false},
		{reply("MOVED 3999 127.0.0.1:6381"), limiter.ErrUnavailable, false},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), limiter.ErrUnavailable,
			false},
		{reply("NOREPLICAS Not enough good replicas to write."), limiter.ErrUnavailable, false},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), limiter.ErrUnavailable, false},
		{reply("NOAUTH Authentication required."), limiter.ErrUnavailable, false},
		{reply("NOPERM this user has no permissions to run the 'get' command"), limiter.ErrUnavailable, false},
		{reply("ERR The user executing the script can't run this command or subcommand script: 620cd258, on @user_script:1."),
			limiter.ErrUnavailable, false},
		{reply("ERR max number of clients reached"), limiter.ErrUnavailable, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, limiter.ErrUnavailable, false},
		{context.DeadlineExceeded, limiter.ErrUnavailable, false},
	} {
		s := newStore(t, &odd{err: c.err}, redisstore.Options{Namespace: "n"})
		charges := []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}}
		results := []algo.Result{{Machine: limit.Machine()}}
		_, taken := s.Take(ctx, noon, who, charges, results)
		_, refunded := s.Settle(ctx, 0, who, charges, results, 0)
		for call, err := range map[string]error{"take": taken, "refund": refunded, "reset": s.Reset(ctx, who)} {
			if !errors.Is(err, c.want) || !errors.Is(err, c.err) || limiter.Answered(err) != c.answered {
				t.Errorf("%s: %v\ngot  %v (answered %t)\nwant %v (answered %t)", call, c.err, err, limiter.Answered(err), c.want, c.answered)
			}
		}
	}
}

// reply is an error reply of a server.
type reply string

func (r reply) Error() string { return string(r) }

func (reply) RedisError() {}

// If an access list denies a command inside or outside a script, the decision reports a failure of the
// store. The list allows every command that a client with a database of its own needs.
func TestStore_denied(t *testing.T) {
	server := local(t)
	limit := storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute})
	for _, missing := range []string{"none", "evalsha", "get", "set"} {
		name, access := "denied-"+missing, redisstore.AccessString(redisstore.Commands()...)
		if missing != "none" {
			access += " -" + missing
		}
		if err := server.Do(ctx, anyOf("acl setuser "+name+" >secret "+access)...).Err(); err != nil {
			t.Fatal(err)
		}
		o := *server.Options()
		o.Username, o.Password, o.DisableIdentity, o.DB = name, "secret", true, 1
		client := redis.NewClient(&o)
		who := caller()
		_, err := newStore(t, client, redisstore.Options{Namespace: "denied"}).Take(ctx, noon, who,
			[]limiter.Charge{{Subject: who, Limit: limit, Cost: 1}}, make([]algo.Result, 1))
		if failed := missing != "none"; errors.Is(err, limiter.ErrUnavailable) != failed || limiter.Answered(err) == failed {
			t.Errorf("without %s: got error %v, want a failure only without a command", missing, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := server.ACLDelUser(ctx, name).Err(); err != nil {
			t.Error(err)
		}
	}
}

// If the removal of idle limits fails, the decision stays. The store logs the error at most once a
// minute.
func TestStore_tidy_error(t *testing.T) {
	var log strings.Builder
	value := idleValue(t, 25)
	c := &canned{value: value, charges: true, replaceErr: reply("NOPERM User weir has no permissions")}
	s := newStore(t, c, redisstore.Options{Namespace: "n", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	who, l := limiter.User("u"), storetest.Limit(t, "la", algo.Rate{Requests: 10, Window: time.Second})
	for i := range 3 {
		if ok, err := s.Take(ctx, noon.Add(2*time.Hour+time.Duration(i)*40*time.Second), who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}},
			make([]algo.Result, 1)); !ok || err != nil {
			t.Fatalf("allowed: got %t, %v, want true", ok, err)
		}
	}
	if n := strings.Count(log.String(), "NOPERM"); n != 2 {
		t.Errorf("got %d lines, want 2:\n%s", n, log.String())
	}
}

// idleValue returns a value with n idle limits, which a server created.
func idleValue(t *testing.T, n int) string {
	t.Helper()
	server := local(t)
	s, who := open(t, redisstore.Options{Namespace: "idle"}), caller()
	for i := range n {
		take(t, s, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "l"+string(rune('a'+i)),
			algo.Rate{Requests: 10, Window: time.Second}), Cost: 1})
	}
	value, err := server.Get(ctx, "idle/"+limiter.StateFormat+"/"+who.String()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return value
}
