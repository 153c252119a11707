package storetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// world plays a scenario in a bubble of synctest. Its environments share one store.
type world struct {
	*scenario
	store    limiter.Store
	outside  chan func() // executes calls of a store whose server is outside the bubble; nil for a store in this process
	begun    time.Time
	caller   limiter.Subject
	versions [][]*limiter.Limit // the limits under each version of the rules, in one tier and then in the other
	rates    []algo.Rate        // the rates under the next changed rules
	envs     []*environment
	others   sync.WaitGroup // calls and settlements in the background

	mu      sync.Mutex // guards all that follows, and the fields of environments
	random  *rand.Rand
	problem problem
	pending []*admitted
	busy    int // requests and settlements in progress
	touched int // number of requests, settlements and late calls that began or ended
	ledgers
}

// problem is what a world found; the zero value is nothing.
type problem struct{ kind, text string }

// environment is a process: a Limiter, its connection to the store and its clock.
type environment struct {
	*limiter.Limiter
	link    *link
	skew    time.Duration
	version int
	tier    int // index of the caller's tier: 0 or 1
	alone   own // what this environment admitted
	// what the models of this environment may count and the environment does not: refunds of others' charges, and charges above the max debt
	refunds map[limitOf]int64
	synced  map[limiter.Subject]bool      // the environment knows the counters of the subject under the current numbers
	notices map[notice]int                // written notices
	behind  map[limiter.Subject]time.Time // when another environment last released a slot, which the cache does not know
}

type notice struct {
	subject limiter.Subject
	limit   limiter.ID
	percent int
	of      int64
	window  time.Duration
	start   int64
}

func (h *scenario) play(t *testing.T, store limiter.Store) (p problem) {
	t.Helper()
	w := &world{scenario: h, store: store, caller: subject(), random: rand.New(rand.NewPCG(h.Seed, 1))}
	if _, local := store.(limiter.Local); !local {
		w.outside = make(chan func())
		defer close(w.outside)
		go func() {
			for f := range w.outside {
				f()
			}
		}()
	}
	synctest.Test(t, func(*testing.T) {
		w.begin()
		for i, s := range h.Steps {
			w.step(s)
			if w.failed() {
				w.problem.text = fmt.Sprintf("step %d: %s", i, w.problem.text)
				break
			}
		}
		w.others.Wait()
		time.Sleep(time.Minute) // until the store has executed all late messages
	})
	return w.problem
}

func (w *world) begin() {
	w.begun, w.refusedAt, w.cutAt = time.Now(), map[limiter.Subject]time.Time{}, map[limitOf]time.Time{}
	w.rates = slices.Clone(w.Rates)
	w.publish(false)
	for range w.Environments {
		e := &environment{
			link: &link{Store: w.store, world: w}, notices: map[notice]int{}, synced: map[limiter.Subject]bool{},
			behind: map[limiter.Subject]time.Time{}, refunds: map[limitOf]int64{},
		}
		e.Limiter = Must(limiter.New(e.link, limiter.Options{IntN: w.intN, Logger: slog.New(slog.DiscardHandler), Notify: func(_ context.Context,
			n limiter.Notice) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			e.notices[notice{n.Subject, n.Limit.ID, n.Percent, n.Capacity, n.End.Sub(n.Start), n.Start.UnixNano()}]++
			return nil
		}}))
		w.envs = append(w.envs, e)
	}
}

// publish makes the next version of the rules, with the same numbers or others.
func (w *world) publish(others bool) {
	var next, inOther []*limiter.Limit
	for i, l := range w.Limits {
		if n := len(w.versions); n > 0 {
			l.Version, l.Rate = int64(n+1), w.versions[n-1][i].Rate
			if others {
				l.Rate, w.rates[i] = w.rates[i], l.Rate
			}
		}
		tiers := w.Limits[i].Rate.Of > 0
		if tiers {
			if l.Rate.Algorithm == algo.SlidingLog {
				l.Rate.Algorithm = algo.FixedWindow
			}
			l.Rate.Of = 2 * l.Rate.WithDefaults().Capacity()
		}
		next = append(next, Must(limiter.NewLimit(l)))
		if tiers && l.Rate.WithDefaults().Burst > 0 {
			l.Rate.Burst = l.Rate.Of
		} else if tiers {
			l.Rate.Requests = l.Rate.Of
		}
		inOther = append(inOther, Must(limiter.NewLimit(l)))
	}
	w.versions = append(w.versions, slices.Concat(next, inOther))
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) fail(format string, args ...any) {
	if w.problem == (problem{}) {
		w.problem = problem{format, fmt.Sprintf(format, args...)}
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem != (problem{})
}

// now returns the instant by the clock of e.
func (w *world) now(e *environment) time.Time {
	return start.Time().Add(w.Begin + time.Since(w.begun) + e.skew)
}

// step makes one step, and waits until its requests are answered.
func (w *world) step(s move) {
	e := w.envs[s.Env]
	w.mu.Lock()
	w.random = rand.New(rand.NewPCG(s.Seed, 2))
	w.mu.Unlock()
	switch s.Kind {
	case doTake, doTakeMore:
		for range s.N {
			w.take(e, s.Cost, s.Kind == doTakeMore, s.Alike)
		}
	case doDrain:
		for cost := max(1, e.limits(w)[0].Rate.Requests/4); cost > 0; cost /= 4 {
			for n := 0; w.take(e, cost, false, false) && n < 60; n++ {
			}
		}
	case doBurst:
		var wg sync.WaitGroup
		for range s.N {
			wg.Go(func() { w.take(e, s.Cost, s.Alike, false) })
			synctest.Wait()
		}
		wg.Wait()
	case doSettle:
		for range s.N {
			w.settle(s.Alike, 0)
		}
	case doSettleLate:
		w.others.Go(func() { w.settle(s.Alike, s.For) })
		synctest.Wait()
	case doPass:
		time.Sleep(s.For / 10)
	case doExpire:
		time.Sleep(s.For)
	default:
		w.disturb(e, s)
	}
	time.Sleep(time.Millisecond)
}

// disturb makes a step that sends no request.
func (w *world) disturb(e *environment, s move) {
	switch s.Kind {
	case doThrottle:
		e.link.plan(throttled, s.N, 0)
	case doStall:
		e.link.plan(stalled, s.N, s.For)
	case doLose:
		for range s.N {
			e.link.plan([]fate{unsent, lost, late, doubled}[w.intN(4)], 1, s.For)
		}
	case doOutage:
		down := !e.link.down
		for _, other := range w.envs {
			if other == e || s.Alike {
				other.link.down = down
			}
		}
	case doReload:
		w.publish(s.Alike)
		for _, other := range w.envs {
			if other == e || s.N > 1 {
				other.version = len(w.versions) - 1
				if s.Alike {
					clear(other.synced)
				}
			} else {
				w.mixed = true // environments have different versions, so one can decide by the numbers of the other
			}
		}
	case doClock:
		e.skew = time.Duration(w.intN(int(time.Second))) - 500*time.Millisecond
		w.skewed = true
	case doReset:
		w.reset(e)
	case doTier:
		tier := 1 - e.tier
		for _, other := range w.envs {
			if other == e || s.Alike {
				other.tier = tier
			}
		}
	default:
	}
}

func (e *environment) limits(w *world) []*limiter.Limit {
	n := len(w.Limits)
	return w.versions[e.version][e.tier*n:][:n]
}

// link is the connection of an environment to the store. It is a remote store for its Limiter.
type link struct {
	limiter.Store
	world  *world
	down   bool
	faults int // number of calls that were disturbed
	fates  []fate
	delays []time.Duration
}

// fate is what happens to a message.
type fate int

const (
	delivered fate = iota
	refusedOne
	breakerOpen
	throttledTable
	throttled // the item is throttled; reads are not
	unsent    // the message is lost
	lost      // the answer is lost
	late      // there is no answer, and the store executes the message later
	doubled   // the message arrives twice, if that is allowed
	stalled   // the store needs time
)

var errOf = map[fate]error{
	refusedOne: limiter.ErrUnavailable, unsent: context.DeadlineExceeded, lost: context.DeadlineExceeded, late: context.DeadlineExceeded,
	breakerOpen: limiter.ErrBreakerOpen, throttledTable: limiter.ErrThrottled, throttled: limiter.ErrItemThrottled,
}

// plan sets the fate of the next n messages.
func (l *link) plan(f fate, n int, delay time.Duration) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	for range n {
		l.fates, l.delays = append(l.fates, f), append(l.delays, delay)
	}
}

func (l *link) next(write, repeatable bool) (f fate, delay time.Duration) {
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	delay = time.Duration(w.random.Int64N(int64(time.Millisecond)))
	switch {
	case l.down:
		f = []fate{refusedOne, breakerOpen, throttledTable, unsent, lost, late}[w.random.IntN(6)]
	case len(l.fates) > 0 && (write || l.fates[0] != throttled):
		f = l.fates[0]
		if f == late || f == stalled {
			delay = l.delays[0]
		}
		l.fates, l.delays = l.fates[1:], l.delays[1:]
	}
	if f == doubled && !repeatable {
		f = delivered
	}
	if f != delivered {
		l.faults++
	}
	return f, delay
}

// send sends a message that the function call executes. answered reports whether the sender gets the answer. repeatable
// reports whether the message may arrive twice.
func (l *link) send(ctx context.Context, s limiter.Subject, write, repeatable bool, call func(ctx context.Context,
	answered bool) error) error {
	// Messages of one request leave at the same time. These pauses order them, so that a seed determines their fates.
	order := fnv.New32()
	_, _ = order.Write([]byte(strings.TrimPrefix(s.String(), l.world.caller.String())))
	time.Sleep(time.Duration(order.Sum32()%1000) * time.Nanosecond)
	f, delay := l.next(write, repeatable)
	execute := func(answered bool) (err error) {
		l.world.execute(func() { err = call(context.WithoutCancel(ctx), answered) }) // the server does not know the deadline
		return err
	}
	var err error
	switch f {
	case refusedOne, unsent, breakerOpen, throttledTable, throttled:
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, errOf[f])
	case late:
		go func() {
			time.Sleep(delay)
			l.world.touch()
			_ = execute(false) // nobody waits for the answer
			l.world.touch()
		}()
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, errOf[f])
	case doubled:
		_ = execute(false)
	case stalled:
		if !sleep(ctx, delay) {
			go func() {
				time.Sleep(time.Microsecond) // after all that happens at this instant
				l.world.touch()
				_ = execute(false)
				l.world.touch()
			}()
			return fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
		}
	default:
		time.Sleep(delay)
	}
	err = execute(f != lost)
	if f == lost {
		err = fmt.Errorf("%w: %w", limiter.ErrUnavailable, errOf[f])
	}
	if err != nil && f == delivered {
		l.world.mu.Lock()
		defer l.world.mu.Unlock()
		l.faults++
	}
	return err
}

// execute runs a call of the store. A server cannot be called in a bubble.
func (w *world) execute(call func()) {
	if w.outside == nil {
		call()
		return
	}
	var done sync.Mutex // synctest would count a channel as a part of the test
	done.Lock()
	w.outside <- func() {
		defer done.Unlock()
		call()
	}
	done.Lock()
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// touch records that the store changes.
func (w *world) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched++
}

// Take implements limiter.Store.
func (l *link) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	sent, got, taken := slices.Clone(charges), slices.Clone(results), false
	write := slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.Cost > 0 })
	err := l.send(ctx, s, write, false, func(ctx context.Context, answered bool) (err error) {
		taken, err = l.Store.Take(ctx, now, s, sent, got)
		if err == nil {
			l.world.convert(now, sent, taken)
			if taken {
				l.world.follow(l, now, sent, got)
			}
			l.world.executed(now, sent, taken, answered)
		}
		return err
	})
	if err != nil { // a late call still writes
		return false, err
	}
	copy(results, got)
	return taken, nil
}

// Settle implements limiter.Store.
func (l *link) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	sent, of := slices.Clone(charges), slices.Clone(results)
	if l.world.Seed%2 == 0 {
		elapsed += 2 * time.Second // like a store that adds a margin for clock skew
	}
	var settled limiter.Settled
	// a slot is released once
	only := !slices.ContainsFunc(of, func(r algo.Result) bool { _, slots := r.Machine.(*algo.Slots); return !slots })
	err := l.send(ctx, s, true, only, func(ctx context.Context, _ bool) (err error) {
		done, err := l.Store.Settle(ctx, now, s, sent, of, elapsed)
		if err == nil {
			settled = done
			l.world.convert(now, slices.DeleteFunc(slices.Clone(sent), func(c limiter.Charge) bool { return !c.Force }), true)
		}
		return err
	})
	if err != nil {
		return limiter.Settled{}, err
	}
	return settled, nil
}

// Inspect implements limiter.Store.
func (l *link) Inspect(ctx context.Context, s limiter.Subject) (entries []limiter.Entry, err error) {
	l.world.execute(func() { entries, err = l.Store.Inspect(context.WithoutCancel(ctx), s) })
	return entries, err
}

// Reset implements limiter.Store.
func (l *link) Reset(ctx context.Context, s limiter.Subject) (err error) {
	l.world.execute(func() { err = l.Store.Reset(context.WithoutCancel(ctx), s) })
	return err
}
