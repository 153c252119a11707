package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// uneven is a remote store that stalls for a time, and throttles a part of the writes at random. It makes some of the
// calls whose answer is lost.
type uneven struct {
	*remote
	mu       sync.Mutex
	random   *rand.Rand
	stalls   []stall
	throttle int // one in this number of writes is throttled; 0 means none
	executed int // number of calls that the store made although their answers were lost
}

// stall is a time in which a store does not answer.
type stall struct{ from, to time.Time }

func (u *uneven) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	if err := u.wait(ctx); err != nil {
		if u.executes() {
			_, _ = u.remote.Take(context.WithoutCancel(ctx), now, s, charges, slices.Clone(results))
		}
		return false, err
	}
	if charges[0].Cost > 0 && u.throttles() {
		return false, errThrottledItem
	}
	return u.remote.Take(ctx, now, s, charges, results)
}

func (u *uneven) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if err := u.wait(ctx); err != nil {
		if u.executes() {
			_, _ = u.remote.Settle(context.WithoutCancel(ctx), now, s, charges, results, elapsed)
		}
		return limiter.Settled{}, err
	}
	if u.throttles() {
		return limiter.Settled{}, errThrottledItem
	}
	return u.remote.Settle(ctx, now, s, charges, results, elapsed)
}

// wait waits for the duration of a call.
func (u *uneven) wait(ctx context.Context) error {
	takes, now := 4*time.Millisecond, time.Now()
	for _, s := range u.stalls {
		if !now.Before(s.from) && now.Before(s.to) {
			takes = s.to.Sub(now)
		}
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	case <-time.After(takes):
		return nil
	}
}

// executes reports whether the store makes a call whose answer is lost.
func (u *uneven) executes() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.random.IntN(2) == 0 {
		return false
	}
	u.executed++
	return true
}

func (u *uneven) throttles() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.throttle > 0 && u.random.IntN(u.throttle) == 0
}

// ledger has the costs of the admitted requests of one limit, and the least count that a store can have of them. A
// request counts with its reserve until its settlement begins, and with its real cost when the settlement has ended.
type ledger struct {
	mu                      sync.Mutex
	least, released         int64 // released is by how much settlements have reduced the least count
	real                    int64
	admitted, busy, refused int
	lost                    int  // settlements
	keepsLost               bool // the process counts the higher cost of a lost settlement by itself
	broken                  string
}

// known returns the least count, apart from what settlements reduce from now on.
func (g *ledger) known() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.least + g.released
}

// decided records a decision. before is the result of known when the decision began.
func (g *ledger) decided(d *limiter.Decision, before, reserve, most int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before -= g.released
	switch {
	case d.Allowed:
		g.admitted++
		g.least += reserve
		if before+reserve > most {
			g.broken = fmt.Sprintf("admitted a cost of %d at a count of at least %d, want at most %d", reserve, before, most)
		}
	case d.Reason == limiter.ReasonBusy:
		g.busy++
	default:
		g.refused++
	}
}

func (g *ledger) settle(receipt *limiter.Receipt, reserve, actual int64) {
	g.mu.Lock()
	g.real += actual
	g.least -= max(0, reserve-actual)
	g.released += max(0, reserve-actual)
	g.mu.Unlock()
	s := receipt.Settle(ctx, time.Now(), func(limiter.Charge) int64 { return actual })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost += s.Lost
	if g.keepsLost || s.Lost+s.Refunds.Dropped == 0 {
		g.least += max(0, actual-reserve)
		for _, e := range s.Excess {
			g.least -= e.Cost
		}
	}
}

// play sends requests at random intervals of the given mean, and settles each after its answer. cost returns the
// reserve and the actual cost of a request.
func (g *ledger) play(t *testing.T, limiters []*limiter.Limiter, l *limiter.Limit, requests int, interval time.Duration, random *rand.Rand,
	cost func() (reserve, actual int64)) {
	t.Helper()
	most := l.Machine().Capacity()
	var all sync.WaitGroup
	for range requests {
		reserve, actual := cost()
		e, answer := limiters[random.IntN(len(limiters))], time.Duration(random.Int64N(int64(60*time.Millisecond)))
		all.Go(func() {
			before := g.known()
			d, receipt, err := e.TakeRefundable(ctx, time.Now(), []limiter.Charge{{Subject: user, Limit: l, Cost: reserve}})
			if err != nil {
				t.Error(err)
			}
			g.decided(&d, before, reserve, most)
			if !d.Allowed {
				return
			}
			time.Sleep(answer)
			g.settle(receipt, reserve, actual)
		})
		time.Sleep(interval/2 + time.Duration(random.Int64N(int64(interval))))
	}
	all.Wait()
	if g.broken != "" {
		t.Error(g.broken)
	}
}

func counting(n int, store limiter.Store) (limiters []*limiter.Limiter) {
	for range n {
		limiters = append(limiters, storetest.Must(limiter.New(store, limiter.Options{Timeout: 100 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler)})))
	}
	return limiters
}

// The store stalls once for 300 ms, or throttles one write in 50. This opens no limit with a count: the real cost is
// at most the limit, plus what was in flight or lost. Requests below the limit are admitted, except those of a busy
// subject. A stall alone makes 18 of 6,000 requests busy, and throttling alone none. Together they also cause a few
// pauses of up to 3 s in the minute of the test, by chance: at most 1,343 requests in 400 runs.
func TestCount_pressure(t *testing.T) {
	for name, c := range map[string]struct {
		count         limiter.Counted
		most          int64
		reserve, real int64
		throttle      int
		stall         time.Duration
		busy          int // largest number of requests of a busy subject
	}{
		"tokens, a stall":               {limiter.CountCost, 1_000_000, 1, 1000, 0, 300 * time.Millisecond, 30},
		"tokens, throttled":             {limiter.CountCost, 100_000, 1, 1000, 50, 0, 0},
		"failures, throttled":           {limiter.CountFailures, 100, 1, 0, 50, 0, 0},
		"failures, throttled and stall": {limiter.CountFailures, 100, 1, 0, 50, 300 * time.Millisecond, 2000},
		"bytes, throttled and stall":    {limiter.CountBytes, 3_100_000, 1000, 500, 50, 300 * time.Millisecond, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &uneven{remote: newRemote(), throttle: c.throttle, random: rand.New(rand.NewPCG(1, 2))}
				store.stalls = []stall{{time.Now().Add(time.Second), time.Now().Add(time.Second + c.stall)}}
				l := limit(t, limiter.Limit{Name: "a", Count: limiter.Count{Of: c.count}, Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: c.most,
					Window: 24 * time.Hour}})
				g := &ledger{}
				g.play(t, counting(1, store), l, 6000, 10*time.Millisecond, rand.New(rand.NewPCG(3, 4)), func() (int64, int64) {
					return c.reserve,
						c.real
				})
				inFlight := int64(20 + g.lost)
				if most := c.most + inFlight*max(0, c.real-c.reserve); g.real > most {
					t.Errorf("got a real cost of %d, want at most %d", g.real, most)
				}
				if honest := 6000*c.real+inFlight*c.reserve <= c.most; g.busy > c.busy || honest != (g.refused == 0) {
					t.Errorf("got %d of a busy subject and %d refused, want at most %d, and some refused: %t", g.busy, g.refused, c.busy, !honest)
				}
				if g.lost > 10 {
					t.Errorf("got %d settlements lost, want only those of the stall", g.lost)
				}
			})
		})
	}
}

// With any stalls, lost answers, throttled writes and settlements, a request is admitted only if the limit has room for it
// beside the real costs of all settled requests and the reserves of all other requests. Without OnErrorLocal, a request
// whose settlement was lost counts with the lower of both. With OnErrorLocal, one process counts its real cost.
func TestCount_bound(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	lost, executed := 0, 0
	counts := []limiter.Counted{limiter.CountRequests, limiter.CountCost, limiter.CountFailures, limiter.CountBytes, limiter.CountConcurrent}
	for _, count := range counts {
		for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.TokenBucket} {
			if count == limiter.CountConcurrent {
				algorithm = ""
			}
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s %s %d", count, algorithm, seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l, e := countBound(t, seed, count, algorithm)
						lost, executed = lost+l, executed+e
					})
				})
			}
		}
	}
	if !testing.Short() && (lost < 20 || executed < 20) {
		t.Errorf("got %d settlements lost and %d calls made without an answer, want at least 20 of each", lost, executed)
	}
}

// countBound returns the number of lost settlements, and the number of calls that were made without an answer.
func countBound(t *testing.T, seed uint64, count limiter.Counted, algorithm algo.Algorithm) (lost, executed int) {
	random := rand.New(rand.NewPCG(seed, 5))
	store := &uneven{remote: newRemote(), throttle: []int{0, 2, 5, 50}[random.IntN(4)], random: rand.New(rand.NewPCG(seed, 6))}
	for at := time.Now(); random.IntN(4) > 0; {
		at = at.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
		store.stalls = append(store.stalls, stall{at, at.Add(time.Duration(random.Int64N(int64(500 * time.Millisecond))))})
	}
	most := 10 + random.Int64N(10_000)
	one := limiter.Limit{Name: "a", Count: limiter.Count{Of: count}, Rate: algo.Rate{Algorithm: algorithm, Requests: most,
		Window: 24 * time.Hour}, OnError: limiter.OnErrorDeny}
	limiters := 1 + random.IntN(3)
	if random.IntN(2) == 0 {
		one.OnError, limiters = limiter.OnErrorLocal, 1
	}
	if count == limiter.CountConcurrent {
		one.Rate.Requests = 1 + random.Int64N(20)
	}
	cost := func() (reserve, actual int64) {
		switch count {
		case limiter.CountConcurrent:
			return 1, 0
		case limiter.CountFailures:
			return 1, random.Int64N(2)
		case limiter.CountRequests: // such a limit takes leases, so its requests only refund
			reserve = 1 + random.Int64N(3)
			return reserve, random.Int64N(reserve + 1)
		case limiter.CountCost, limiter.CountBytes:
		}
		return 1 + random.Int64N(3), random.Int64N(20)
	}
	g := &ledger{keepsLost: one.OnError == limiter.OnErrorLocal}
	g.play(t, counting(limiters, store), limit(t, one), 1000, time.Duration(1+random.IntN(15))*time.Millisecond, random, cost)
	if g.admitted == 0 {
		t.Error("got no admissions at all, want some")
	}
	synctest.Wait() // a read for a subject that was throttled may outlive its request
	return g.lost, store.executed
}
