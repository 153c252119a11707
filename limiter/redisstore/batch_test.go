package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// gate is a hook that holds commands until the test opens the gate. A fake server then answers the
// commands.
type gate struct {
	node   *node
	opened chan struct{}
	holds  int // the gate holds only this number of pipelines, from the first; 0 means all
	panics int // the hook panics for pipelines of this size

	mu    sync.Mutex
	sizes []int // sizes of all pipelines; the size of a single command is 1
}

// newGate returns a gate in front of a server that answers script calls with answers, in order. It
// repeats the last answer.
func newGate(answers ...string) *gate {
	return &gate{node: &node{seen: map[string]int{}, answers: map[string][]string{"hello": {"%0\r\n"}, "evalsha": answers}},
		opened: make(chan struct{})}
}

// charges is the answer of a script that charged.
const charges = ":1\r\n"

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.pass(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if err := g.pass(ctx, commands...); err != nil {
			for _, cmd := range commands {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, commands)
	}
}

// pass waits for the gate. Commands that prepare a connection pass at once.
func (g *gate) pass(ctx context.Context, commands ...redis.Cmder) error {
	if commands[0].Name() != "evalsha" {
		return nil
	}
	g.mu.Lock()
	g.sizes = append(g.sizes, len(commands))
	passes := g.holds > 0 && len(g.sizes) > g.holds
	g.mu.Unlock()
	if passes {
		return nil
	}
	select {
	case <-g.opened:
		if len(commands) == g.panics {
			panic("a broken hook")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) sent() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.sizes)
}

// taker makes concurrent decisions. Each decision is for another caller.
type taker struct {
	store limiter.Store
	limit *limiter.Limit
	wg    sync.WaitGroup

	mu   sync.Mutex
	errs map[string]error
}

func newTaker(t *testing.T, client redisstore.Client) *taker {
	return &taker{
		store: newStore(t, client, redisstore.Options{Namespace: "batch"}),
		limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), errs: map[string]error{},
	}
}

func (k *taker) take(ctx context.Context, names ...string) {
	for _, name := range names {
		k.wg.Go(func() {
			who := limiter.User(name)
			_, err := k.store.Take(ctx, noon, who, []limiter.Charge{{Subject: who, Limit: k.limit, Cost: 1}}, make([]algo.Result, 1))
			k.mu.Lock()
			defer k.mu.Unlock()
			k.errs[name] = err
		})
	}
}

func (k *taker) err(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err, ok := k.errs[name]
	if !ok {
		return errPending
	}
	return err
}

var errPending = errors.New("the decision is not made yet")

// open returns a taker on one server behind the gate.
func (g *gate) open(t *testing.T) *taker {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: g.node.dial, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: quiet})
	client.AddHook(g)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return newTaker(t, client)
}

var quiet = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

// A caller without concurrent calls sends each call alone. If two calls are in flight, further calls
// wait and share one pipeline.
func TestStore_batch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		names := []string{"a", "b", "c", "d", "e"}
		k.take(t.Context(), names...)
		synctest.Wait()
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1}) {
			t.Errorf("two calls in flight: got pipelines of %v, want two single calls", sent)
		}
		close(g.opened)
		k.wg.Wait()
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1, 5}) {
			t.Errorf("got pipelines of %v, want the five others in one pipeline", sent)
		}
		for _, name := range names {
			if err := k.err(name); err != nil {
				t.Errorf("%s: got error %v, want none", name, err)
			}
		}
		for range 3 {
			k.take(t.Context(), "alone")
			k.wg.Wait()
		}
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1, 5, 1, 1, 1}) {
			t.Errorf("caller without concurrent calls: got pipelines of %v, want single calls at the end", sent)
		}
	})
}

// A pipeline has at most 128 calls.
func TestStore_batch_size(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		for i := range 302 {
			k.take(t.Context(), string(rune('a'+i)))
			synctest.Wait()
		}
		close(g.opened)
		k.wg.Wait()
		sent := g.sent()
		slices.Sort(sent)
		total := 0
		for _, n := range sent {
			total += n
		}
		if total != 302 || sent[len(sent)-1] != 128 {
			t.Errorf("got pipelines of %v, want 302 calls in pipelines of at most 128", sent)
		}
	})
}

// Two stalled calls delay other callers by 10 ms at most: a call that comes later is sent at once, and
// calls that already wait are sent together.
func TestStore_batch_stalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		g.holds = 2
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		next := 'a'
		take := func(n int) {
			for range n {
				k.take(t.Context(), string(next))
				next++
			}
			synctest.Wait()
		}
		wait := func(d time.Duration) {
			time.Sleep(d) // fake clock of synctest
			synctest.Wait()
		}
		check := func(decided int, pipelines ...int) {
			t.Helper()
			for name := 'a'; name < next; name++ {
				if err := k.err(string(name)); err == nil {
					decided--
				} else if !errors.Is(err, errPending) {
					t.Errorf("%c: got error %v, want none or a pending call", name, err)
				}
			}
			if sent := g.sent(); decided != 0 || !slices.Equal(sent, pipelines) {
				t.Errorf("got %d missing decisions and pipelines of %v, want 0 and pipelines of %v", decided, sent, pipelines)
			}
		}
		wait(9 * time.Millisecond)
		take(20)
		check(0, 1, 1)
		wait(time.Millisecond)
		check(20, 1, 1, 20)
		wait(10 * time.Millisecond)
		take(1)
		check(21, 1, 1, 20, 1)
		take(29)
		check(21, 1, 1, 20, 1)
		wait(10 * time.Millisecond)
		check(50, 1, 1, 20, 1, 29)
		close(g.opened)
		k.wg.Wait()
	})
}

// At most 16 calls and pipelines are in flight on a server that does not answer.
func TestStore_batch_stalledMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		for i := range 40 {
			k.take(t.Context(), string(rune('a'+i)))
			synctest.Wait()
			time.Sleep(10 * time.Millisecond) // fake clock of synctest
		}
		want := slices.Repeat([]int{1}, 16)
		if sent := g.sent(); !slices.Equal(sent, want) {
			t.Errorf("got pipelines of %v in flight, want 16 single calls", sent)
		}
		close(g.opened)
		k.wg.Wait()
		if sent := g.sent(); !slices.Equal(sent, append(want, 24)) {
			t.Errorf("got pipelines of %v, want the 24 others in one pipeline", sent)
		}
		for i := range 40 {
			if err := k.err(string(rune('a' + i))); err != nil {
				t.Errorf("got error %v, want none", err)
			}
		}
		k.take(t.Context(), "later", "too")
		k.wg.Wait()
		if k.err("later") != nil || k.err("too") != nil {
			t.Errorf("got errors %v and %v, want none", k.err("later"), k.err("too"))
		}
	})
}

// A panic in a hook of the client fails the calls of its pipeline. The process and later pipelines
// continue.
func TestStore_batch_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		g.panics = 128
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		for i := range 266 {
			k.take(t.Context(), string(rune('a'+i)))
		}
		synctest.Wait()
		close(g.opened)
		k.wg.Wait()
		failed := 0
		for i := range 266 {
			if err := k.err(string(rune('a' + i))); errors.Is(err, limiter.ErrUnavailable) && strings.Contains(err.Error(),
				"panic in a pipeline: a broken hook") {
				failed++
			} else if err != nil {
				t.Errorf("got error %v, want none, or one that names the panic", err)
			}
		}
		if failed != 256 {
			t.Errorf("got %d failed calls in pipelines of %v, want the calls of two pipelines of 128", failed, g.sent())
		}
	})
}

// A call whose deadline passes before its pipeline is sent is never sent.
func TestStore_batch_notSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		k.take(short, "short")
		k.take(t.Context(), "long")
		time.Sleep(time.Millisecond) // fake clock of synctest
		synctest.Wait()
		if err := k.err("short"); !errors.Is(err, limiter.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at its deadline: got error %v, want ErrUnavailable and DeadlineExceeded", err)
		}
		close(g.opened)
		k.wg.Wait()
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1, 1}) || k.err("long") != nil {
			t.Errorf("got pipelines of %v and error %v, want only the other call to be sent", sent, k.err("long"))
		}
	})
}

// ending is a context that has ended although its channel Done is still open.
type ending struct {
	context.Context //nolint:containedctx // this type is a context

	ended atomic.Bool
}

func (e *ending) Err() error {
	if e.ended.Load() {
		return context.Canceled
	}
	return e.Context.Err()
}

// A call whose context has ended is not sent, even if its goroutine has not yet noticed the end.
func TestStore_batch_ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		inner, cancel := context.WithCancel(t.Context())
		gone := &ending{Context: inner}
		k.take(gone, "gone")
		synctest.Wait()
		k.take(t.Context(), "other")
		synctest.Wait()
		gone.ended.Store(true)
		close(g.opened)
		synctest.Wait()
		cancel()
		k.wg.Wait()
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1, 1}) || k.err("other") != nil {
			t.Errorf("got pipelines of %v and error %v, want only the other call to be sent", sent, k.err("other"))
		}
		if err := k.err("gone"); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want Canceled", err)
		}
	})
}

// If the deadline of a call passes while its pipeline is in flight, the call returns at its deadline.
// The pipeline stays in flight for the other calls, until their latest deadline.
func TestStore_batch_deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges)
		k := g.open(t)
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		k.take(brief, "first", "second")
		synctest.Wait()
		for i, name := range []string{"2 ms", "3 ms"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+2)*time.Millisecond)
			defer cancel()
			k.take(ctx, name)
		}
		for i, name := range []string{"first", "2 ms", "3 ms"} {
			if err := k.err(name); !errors.Is(err, errPending) {
				t.Errorf("%s: before the deadline: got error %v, want a pending call", name, err)
			}
			time.Sleep(time.Millisecond) // fake clock of synctest
			synctest.Wait()
			if err := k.err(name); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got error %v after %d ms, want DeadlineExceeded", name, err, i+1)
			}
		}
		if sent := g.sent(); !slices.Equal(sent, []int{1, 1, 2}) {
			t.Errorf("got pipelines of %v, want two single calls and a pair", sent)
		}
	})
}

// If the connection of a pipeline is lost, its replies are unknown: all its calls fail, and none is
// sent again.
func TestStore_batch_lostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(charges, charges, "")
		k := g.open(t)
		k.take(t.Context(), "first", "second")
		synctest.Wait()
		names := []string{"a", "b", "c"}
		k.take(t.Context(), names...)
		synctest.Wait()
		for range 2 { // release the two single calls, which were sent before the pipeline
			g.opened <- struct{}{}
			synctest.Wait()
		}
		close(g.opened)
		k.wg.Wait()
		for _, name := range names {
			if err := k.err(name); !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("%s: got error %v, want ErrUnavailable", name, err)
			}
		}
		// The server got the two single calls and the first call of the pipeline, which ended the connection.
		if n := g.node.count("evalsha"); n != 3 {
			t.Errorf("got %d calls at the server, want 3", n)
		}
	})
}

// If a node of a cluster redirects the calls of a pipeline, it has not run them. The client then sends
// the calls to the other node, on few connections.
func TestStore_batch_redirected(t *testing.T) {
	for _, answer := range []string{"-MOVED 1 127.0.0.1:1\r\n", "-ASK 1 127.0.0.1:1\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			const redirected = 64
			g := newGate(slices.Concat([]string{charges, charges}, slices.Repeat([]string{answer}, redirected+3), []string{charges})...)
			g.node.takes = time.Millisecond
			client := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{"127.0.0.1:1"}, Dialer: g.node.dial, DisableRoutingPolicies: true, ContextTimeoutEnabled: true,
				MaintNotificationsConfig: quiet, PoolSize: 1000,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
				},
				NewClient: func(o *redis.Options) *redis.Client {
					c := redis.NewClient(o)
					c.AddHook(g)
					return c
				},
			})
			k, names := newTaker(t, client), []string{"first", "second"}
			k.take(t.Context(), names...)
			synctest.Wait()
			for i := range redirected {
				names = append(names, string(rune('a'+i)))
			}
			k.take(t.Context(), names[2:]...)
			synctest.Wait()
			close(g.opened)
			k.wg.Wait()
			for _, name := range names {
				if err := k.err(name); err != nil {
					t.Errorf("%q, %s: got error %v, want none", answer, name, err)
				}
			}
			if n := g.node.count("evalsha"); n != 2+2*redirected+3 || g.node.count("hello") > 32 {
				t.Errorf("%q: got %d calls on %d connections, want %d on at most 32", answer, n, g.node.count("hello"), 2+2*redirected+3)
			}
			time.Sleep(time.Second) // fake clock of synctest; after a redirection, the client pauses before it reads the slots again
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// flusher counts the connections of a client. It removes the scripts from the server before each pipeline that needs one.
type flusher struct {
	counter
	server *redis.Client
	dials  atomic.Int64
}

func (f *flusher) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		f.dials.Add(1)
		return next(ctx, network, address)
	}
}

func (f *flusher) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() == "evalsha" {
			_ = f.server.ScriptFlush(ctx).Err()
		}
		return next(ctx, commands)
	}
}

// If a server loses its scripts, concurrent calls send them on few connections, and each call charges once.
func TestStore_batch_flushed(t *testing.T) {
	server := local(t)
	f, o := &flusher{counter: counter{new(atomic.Int64)}, server: server}, *server.Options()
	o.PoolSize, o.MaintNotificationsConfig = 1000, quiet
	client := redis.NewClient(&o)
	client.AddHook(f)
	defer func() { _ = client.Close() }()
	k, names := newTaker(t, client), make([]string, 400)
	for i := range names {
		names[i] = rand.Text()
	}
	k.take(ctx, names...)
	k.wg.Wait()
	if n := f.dials.Load(); n > 32 {
		t.Errorf("got %d connections, want at most 32", n)
	}
	for _, name := range names {
		_, results := take(t, k.store, noon, limiter.Charge{Subject: limiter.User(name), Limit: k.limit})
		if used := results[0].Machine.Used(results[0].State, noon); k.err(name) != nil || used != 1 {
			t.Errorf("got a count of %d and error %v, want one charge", used, k.err(name))
		}
	}
}
