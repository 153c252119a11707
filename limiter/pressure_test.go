package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// partition is a remote store that throttles the writes of some subjects.
type partition struct {
	*remote
	mu            sync.Mutex
	throttle      map[limiter.Subject]int // number of the next writes to throttle; -1 means all
	between       func()                  // runs at each throttled write, for charges by other processes
	throttleReads bool                    // the partition throttles reads too
	parses        bool                    // each read returns a new Machine, as for an item that other rules wrote
	reads         int
	exact         int     // reads that do not allow a stale state
	costs         []int64 // costs of all writes that were not throttled
	takes         time.Duration
}

var errThrottledItem = fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)

func (p *partition) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	time.Sleep(p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if charges[0].Cost == 0 {
		p.reads++
		if !limiter.MayBeStale(ctx) {
			p.exact++
		}
		if p.throttleReads {
			return false, errThrottledItem
		}
		taken, err := p.remote.Take(ctx, now, s, charges, results)
		if p.parses {
			for i := range results {
				results[i].Machine, _ = algo.Parse(results[i].Machine.Fingerprint())
			}
		}
		return taken, err
	}
	if n := p.throttle[s]; n != 0 {
		p.throttle[s]--
		if p.between != nil {
			p.between()
		}
		return false, errThrottledItem
	}
	p.costs = append(p.costs, charges[0].Cost)
	return p.remote.Take(ctx, now, s, charges, results)
}

// pressed returns a Limiter with a partition as its store. If hot is true, another process charges the
// item of user at every throttled write.
func pressed(t *testing.T, hot bool, l *limiter.Limit) (*limiter.Limiter, *partition) {
	t.Helper()
	p := &partition{remote: newRemote(), throttle: map[limiter.Subject]int{}}
	if hot {
		p.between = func() {
			charges, results := []limiter.Charge{{Subject: user, Limit: l, Cost: 1}}, make([]algo.Result, 1)
			if _, err := p.Store.Take(ctx, algo.InstantOf(noon), user, charges, results); err != nil {
				t.Error(err)
			}
		}
	}
	o := limiter.Options{Logger: slog.New(slog.DiscardHandler)}
	return storetest.Must(limiter.New(p, o)), p
}

func pressedLimit(t *testing.T, algorithm algo.Algorithm, n int64, policy limiter.OnError) *limiter.Limit {
	t.Helper()
	l := limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: n, Window: time.Hour}, OnError: policy}
	return limit(t, l)
}

// If the limit in a throttled item has no quota left, it refuses the request. The same is true if another
// item of the partition is hot.
func TestLimiter_Take_throttled_refuses(t *testing.T) { synctest.Test(t, throttledRefuses) }

func throttledRefuses(t *testing.T) {
	l := pressedLimit(t, algo.SlidingWindow, 1, limiter.OnErrorAllow)
	e, p := pressed(t, true, l)
	p.throttle[user] = -1
	c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
	if d := take(t, e, c); d.Allowed || d.Limit != l || d.RetryAfter == 0 || d.Reason != limiter.ReasonNone || p.reads != 1 || p.exact > 0 {
		t.Errorf("got %+v after %d reads, %d of them exact, want a refusal by the limit after one read that may be stale", d, p.reads, p.exact)
	}
}

// If other processes charge an item between the attempts, the item is hot: its subject is busy, and OnError
// does not apply. If no process charges it, another item of the partition is hot, and OnError decides.
func TestLimiter_Take_throttled_hot(t *testing.T) {
	for _, policy := range []limiter.OnError{limiter.OnErrorAllow, limiter.OnErrorLocal, limiter.OnErrorDeny} {
		for _, hot := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, hot %t", policy, hot), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { throttledHot(t, policy, hot) })
			})
		}
	}
}

func throttledHot(t *testing.T, policy limiter.OnError, hot bool) {
	l := pressedLimit(t, algo.SlidingLog, 300, policy)
	e, p := pressed(t, hot, l)
	p.throttle[user] = -1
	c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
	d := take(t, e, c)
	if hot && (d.Allowed || d.Reason != limiter.ReasonBusy || d.Failed) {
		t.Errorf("got %+v, want a busy subject", d)
	}
	if !hot && (d.Allowed != (policy != limiter.OnErrorDeny) || d.Reason != limiter.ReasonThrottled) {
		t.Errorf("got %+v, want on_error to decide", d)
	}
	before := p.reads
	d = take(t, e, c)
	if hot && (d.Reason != limiter.ReasonBusy || d.StoreCalls != 0 || p.reads != before) {
		t.Errorf("the next request: got %+v, want a busy subject without a call", d)
	}
	if look := mustPeek(t, e, noon, c); !look.Allowed || look.Reason != limiter.ReasonNone {
		t.Errorf("Peek: got %+v, want a read", look)
	}
	p.throttleReads, before = true, p.reads
	if look := mustPeek(t, e, noon, c); look.Reason != limiter.ReasonThrottled || look.Allowed != (policy != limiter.OnErrorDeny) ||
		p.reads != before+1 {
		t.Errorf("a throttled Peek: got %+v after %d reads, want one read, and on_error to decide", look, p.reads-before)
	}
}

// Concurrent requests of one process do not make a subject hot. If another item of the partition is hot,
// OnError decides all of them. If other processes charge the item, all of them are denied as busy.
func TestLimiter_Take_throttled_group(t *testing.T) {
	for _, hot := range []bool{false, true} {
		t.Run(fmt.Sprint("hot ", hot), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pressedLimit(t, algo.SlidingWindow, 300, limiter.OnErrorLocal)
				e, p := pressed(t, hot, l)
				p.throttle[user], p.takes = -1, 4*time.Millisecond
				c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
				for round := range 2 { // the second round begins 4 s later, when the pressure of the first has ended
					at := noon.Add(time.Duration(round) * 4 * time.Second)
					for i, d := range oneByOne(5, func(int) limiter.Decision { return takeAt(t, e, at, c) }) {
						want := limiter.ReasonThrottled
						if hot {
							want = limiter.ReasonBusy
						}
						if d.Allowed == hot || d.Reason != want {
							t.Errorf("round %d, request %d: got %+v, want reason %s", round, i, d, want)
						}
					}
				}
			})
		})
	}
}

// If a write is throttled once, the process repeats it, and it succeeds.
func TestLimiter_Take_throttled_repeated(t *testing.T) { synctest.Test(t, throttledAgain) }

func throttledAgain(t *testing.T) {
	l := pressedLimit(t, algo.SlidingWindow, 10, limiter.OnErrorDeny)
	e, p := pressed(t, false, l)
	p.throttle[user] = 3
	if d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1}); !d.Allowed || d.Reason != limiter.ReasonNone || d.Remaining != 9 {
		t.Errorf("got %+v, want it allowed", d)
	}
}

// After a throttled write, the next write takes a lease. If other processes charge the item, the next
// lease is twice as large, up to half of the remaining quota. Four seconds without pressure halve the
// lease, unless leases still save writes. Without pressure, every request is one write.
func TestLimiter_Take_pressure_leases(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		t.Run(string(algorithm), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pressureLeases(t, algorithm) })
		})
	}
}

func pressureLeases(t *testing.T, algorithm algo.Algorithm) {
	l := pressedLimit(t, algorithm, 10_000, limiter.OnErrorDeny)
	e, p := pressed(t, true, l)
	for _, step := range []struct {
		name           string
		at             time.Duration
		throttle, send int
		want           string
	}{
		{"without pressure", 0, 0, 3, "[1 1 1]"},
		{"a write after a throttled one", 0, 1, 4, "[4]"},
		{"the next lease", 0, 0, 4, "[4]"},
		{"other processes charge the item", 0, 7, 4, "[4]"},
		{"after that", 0, 0, 24, "[8 8 8]"},
		{"after four quiet seconds", 4 * time.Second, 0, 12, "[4 4 4]"},
		{"after four seconds of traffic", 7 * time.Second, 0, 8, "[4 4]"},
		{"after eight quiet seconds", 15 * time.Second, 0, 3, "[1 1 1]"},
	} {
		p.costs, p.throttle[user] = nil, step.throttle
		for range step.send {
			if d := takeAt(t, e, noon.Add(step.at), limiter.Charge{Subject: user, Limit: l, Cost: 1}); !d.Allowed {
				t.Fatalf("%s: got %+v, want it allowed", step.name, d)
			}
		}
		if got := fmt.Sprint(p.costs); got != step.want {
			t.Errorf("%s: got charges of %s, want %s", step.name, got, step.want)
		}
	}
}

// A lease takes at most half of the remaining quota, so that other processes get quota too.
func TestLimiter_Take_lease_half(t *testing.T) {
	r := &partition{remote: newRemote(), throttle: map[limiter.Subject]int{}}
	e := storetest.Must(limiter.New(r, limiter.Options{}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Hour}, Spread: limiter.Spread{Lease: 10}})
	for range 10 {
		take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1})
	}
	if fmt.Sprint(r.costs) != "[1 2 3 2 1 1]" {
		t.Errorf("got leases of %d, want at most half of the remaining quota", r.costs)
	}
}

// If other processes have used up the limit, the refusal of a lease shows that the request alone has no room either. The
// process makes one call.
func TestLimiter_Take_lease_refused(t *testing.T) {
	r := newRemote()
	e := over(r, 0)
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Hour},
		Spread: limiter.Spread{Lease: 10}})}
	for range 7 { // leases of 1, 2 and 4
		take(t, e, c)
	}
	theirs := c
	theirs.Cost = 93
	if d := take(t, over(r, 0), theirs); !d.Allowed {
		t.Fatalf("got %+v, want it allowed", d)
	}
	r.takes.Store(0)
	if d := take(t, e, c); d.Allowed || r.takes.Load() != 1 {
		t.Errorf("got %+v after %d calls, want a refusal after one", d, r.takes.Load())
	}
}

// Logs, leaky buckets, buckets that drain too fast, thresholds and limits with a Spread get no lease under pressure.
func TestLimiter_Take_pressure_notLeased(t *testing.T) {
	for name, l := range map[string]limiter.Limit{
		"log":            {Rate: algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Hour}},
		"leaky bucket":   {Rate: algo.Rate{Algorithm: algo.LeakyBucket, Requests: 10_000, Window: time.Hour}},
		"threshold":      {Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10_000, Of: 20_000, Window: time.Hour}},
		"shallow bucket": {Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 10_000, Window: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l.Name = "a"
				made := limit(t, l)
				e, p := pressed(t, true, made)
				c := limiter.Charge{Subject: user, Limit: made, Cost: 1}
				p.throttle[user] = 1
				for range 5 {
					take(t, e, c)
				}
				for _, cost := range p.costs {
					if cost != 1 {
						t.Errorf("got charges of %d, want 1 each", p.costs)
					}
				}
			})
		})
	}
}

// If many quiet subjects are throttled one after the other, OnError decides each of them after two reads.
func TestLimiter_Take_throttled_several(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.SlidingWindow, 10, limiter.OnErrorAllow)
		e, p := pressed(t, false, l)
		for i := range 8 {
			subject := limiter.User(fmt.Sprint(i))
			p.throttle[subject], p.reads = -1, 0
			d := take(t, e, limiter.Charge{Subject: subject, Limit: l, Cost: 1})
			if !d.Allowed || d.Reason != limiter.ReasonThrottled || p.reads < 2 {
				t.Errorf("subject %d: got %+v after %d reads, want on_error to decide after two", i, d, p.reads)
			}
		}
	})
}

// Several callers have used up their limits, and their items are throttled. None of their requests is
// admitted.
func TestLimiter_Take_throttled_severalHot(t *testing.T) {
	for _, throttleReads := range []bool{false, true} {
		t.Run(fmt.Sprintf("reads throttled %t", throttleReads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { throttledSeveralHot(t, throttleReads) })
		})
	}
}

func throttledSeveralHot(t *testing.T, throttleReads bool) {
	l := pressedLimit(t, algo.SlidingWindow, 10, limiter.OnErrorAllow)
	other, p := pressed(t, false, l)
	e := storetest.Must(limiter.New(p, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	p.throttleReads = throttleReads
	for i := range 8 {
		subject := limiter.User(fmt.Sprint(i))
		for range 10 {
			take(t, other, limiter.Charge{Subject: subject, Limit: l, Cost: 1})
		}
		p.throttle[subject] = -1
	}
	for range 5 {
		for i := range 8 {
			if d := take(t, e, limiter.Charge{Subject: limiter.User(fmt.Sprint(i)), Limit: l, Cost: 1}); d.Allowed {
				t.Errorf("subject %d: got %+v, want a refusal", i, d)
			}
		}
	}
}

// If other rules wrote an item, each read of it returns a new Machine. A new Machine alone is not a
// change of the item, so the subject counts as quiet.
func TestLimiter_Take_throttled_parsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.SlidingWindow, 10, limiter.OnErrorAllow)
		e, p := pressed(t, false, l)
		p.parses, p.throttle[user] = true, -1
		if d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1}); !d.Allowed || d.Reason != limiter.ReasonThrottled {
			t.Errorf("got %+v, want on_error to decide", d)
		}
	})
}

// If a throttled item cannot be read twice, nothing shows that it is quiet. Its subject then counts as hot, and
// OnError does not apply.
func TestLimiter_Take_throttled_oneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.SlidingWindow, 300, limiter.OnErrorAllow)
		e, p := pressed(t, false, l)
		p.throttle[user] = -1
		p.between = func() { p.throttleReads = p.reads > 0 }
		if d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1}); d.Allowed || d.Reason != limiter.ReasonBusy || p.reads < 2 {
			t.Errorf("got %+v after %d reads, want a busy subject after one read that succeeded", d, p.reads)
		}
	})
}

// leased raises the pressure on user until a lease holds at least the given number of requests. It then uses up that
// lease. It sends all requests at noon, and returns the size of the lease.
func leased(t *testing.T, e *limiter.Limiter, p *partition, l *limiter.Limit, size int64) (last int64) {
	t.Helper()
	send := func(n int64) {
		for range n {
			if d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1}); !d.Allowed {
				t.Fatalf("got %+v, want it allowed", d)
			}
		}
	}
	p.throttle[user] = 7 // the reads between these writes show the charges of another process
	for send(1); last < size; last = p.costs[len(p.costs)-1] {
		p.throttle[user] = 1 // each throttled write doubles the next lease
		send(1)
	}
	p.throttle[user] = 0
	send(last - 1)
	return last
}

// A process holds a lease of a bucket until the bucket is full again. The lease then lets the processes exceed the
// burst by at most one percent.
func TestLimiter_Take_pressure_burst(t *testing.T) {
	const burst = 10_000
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: burst, Window: 10 * time.Second}})
		e, p := pressed(t, true, l)
		size := leased(t, e, p, l, 400)
		at := noon.Add(3500 * time.Millisecond) // the bucket is full
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		takeAt(t, e, at, c)
		if p.costs[len(p.costs)-1] != size {
			t.Fatalf("got charges of %d, want a lease of %d", p.costs, size)
		}
		at = at.Add(time.Duration(size) * time.Millisecond) // the bucket is full again, although the lease still has quota
		admitted := 0
		if takeAt(t, over(p.remote, 0), at, limiter.Charge{Subject: user, Limit: l, Cost: burst}).Allowed {
			admitted = burst
		}
		for takeAt(t, e, at, c).Allowed {
			admitted++
		}
		if admitted < burst || admitted > burst*101/100 {
			t.Errorf("%d admitted at once, want at least the burst of %d and at most 1 %% more", admitted, burst)
		}
	})
}

// A process that leases a bucket makes one store call for each lease, also when the bucket has room for a few
// requests only.
func TestLimiter_Take_pressure_lastLeases(t *testing.T) {
	const burst, left = 20_480, 30
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: burst, Window: 40 * time.Second}})
		_, p := pressed(t, true, l)
		e := storetest.Must(limiter.New(p, limiter.Options{IntN: func(n int) int { return n - 1 }, Logger: slog.New(slog.DiscardHandler)}))
		leased(t, e, p, l, 16)
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		c.Cost = mustPeek(t, e, noon, c).Remaining - left
		take(t, over(p.remote, 0), c)
		c.Cost = 0
		take(t, e, c) // reads the state
		c.Cost = 1
		for i := range left {
			if d := take(t, e, c); !d.Allowed || d.StoreCalls > 1 {
				t.Errorf("request %d of the last %d: got %+v, want it allowed after at most one call", i+1, left, d)
			}
		}
	})
}

// The charge of a lease is slightly earlier than its request. This lets the processes exceed the burst by at most
// 0.1 %.
func TestLimiter_Take_pressure_backdated(t *testing.T) {
	const burst = 10_000
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: burst, Window: 10 * time.Second}})
		_, p := pressed(t, true, l)
		// the longest difference
		e := storetest.Must(limiter.New(p, limiter.Options{IntN: func(n int) int { return n - 1 }, Logger: slog.New(slog.DiscardHandler)}))
		size := leased(t, e, p, l, 400)
		at := noon.Add(3500 * time.Millisecond) // the bucket is full
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		calls := len(p.costs)
		for range size {
			takeAt(t, e, at, c)
		}
		if got := p.costs[calls:]; len(got) != 1 || got[0] != size {
			t.Fatalf("got charges of %d, want one lease of %d", got, size)
		}
		if left := mustPeek(t, over(p.remote, 0), at, c).Remaining; size+left > burst+burst/1000 {
			t.Errorf("%d used and %d left at once, want at most %d", size, left, burst+burst/1000)
		}
	})
}

// Near its limit, a subject gets no lease after a throttled write.
func TestLimiter_Take_pressure_noRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.FixedWindow, 10_000, limiter.OnErrorDeny)
		e, p := pressed(t, false, l)
		c := limiter.Charge{Subject: user, Limit: l, Cost: 9_900}
		take(t, e, c)
		c.Cost, p.throttle[user], p.costs = 1, 1, nil
		if d := take(t, e, c); !d.Allowed || fmt.Sprint(p.costs) != "[1]" {
			t.Errorf("got %+v and charges of %d, want it allowed and one charge of 1", d, p.costs)
		}
	})
}

// However often writes are throttled, the process takes leases.
func TestLimiter_Take_pressure_long(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.FixedWindow, 10_000_000, limiter.OnErrorDeny)
		e, p := pressed(t, true, l)
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		leased(t, e, p, l, 64)
		for second := range 80 {
			p.costs, p.throttle[user] = nil, 1
			for range 50 {
				if d := takeAt(t, e, noon.Add(time.Duration(second)*1100*time.Millisecond), c); !d.Allowed {
					t.Fatalf("got %+v, want it allowed", d)
				}
			}
			if len(p.costs) > 7 {
				t.Fatalf("after %d throttled writes: got charges of %d for 50 requests, want leases", second, p.costs)
			}
		}
	})
}

// If the clock is set back, the process does not stay in a pause, and a subject does not stay hot.
func TestLimiter_Take_pressure_clockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.SlidingLog, 300, limiter.OnErrorAllow)
		e, p := pressed(t, true, l)
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		p.throttle[user] = -1
		for range 2 {
			if d := take(t, e, c); d.Reason != limiter.ReasonBusy {
				t.Fatalf("got %+v, want a busy subject", d)
			}
		}
		p.between = nil
		if d := takeAt(t, e, noon.Add(-time.Hour), c); !d.Allowed || d.Reason != limiter.ReasonThrottled {
			t.Errorf("an hour earlier, and throttled: got %+v, want on_error to decide", d)
		}
		p.throttle[user] = 0
		if d := takeAt(t, e, noon.Add(-2*time.Hour), c); !d.Allowed || d.Reason != limiter.ReasonNone {
			t.Errorf("two hours earlier: got %+v, want it allowed", d)
		}
	})
}

// All writes of a hot subject are throttled, and other processes have used up its limit. A read shows that, so the
// limit refuses the request.
func TestLimiter_Take_throttled_hotRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.FixedWindow, 10_000, limiter.OnErrorDeny)
		e, p := pressed(t, true, l)
		leased(t, e, p, l, 16)
		at := noon.Add(1100 * time.Millisecond) // the lease has ended, and the subject is still hot
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		theirs := c
		theirs.Cost = mustPeek(t, over(p.remote, 0), at, c).Remaining
		takeAt(t, over(p.remote, 0), at, theirs)
		p.throttle[user], p.between = -1, nil
		if d := takeAt(t, e, at, c); d.Allowed || d.Limit != l || d.Reason != limiter.ReasonNone {
			t.Errorf("got %+v, want a refusal by the limit", d)
		}
	})
}

// A throttled write is repeated, and the repeated call has no answer. The store answered the first call, so this is no
// outage.
func TestLimiter_Take_throttled_noAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pressedLimit(t, algo.FixedWindow, 300, limiter.OnErrorAllow)
		e, p := pressed(t, false, l)
		p.throttle[user] = 1
		p.between = func() { p.fail = map[limiter.Subject]error{user: errHangs} }
		if d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1}); d.Allowed || d.Reason != limiter.ReasonBusy {
			t.Errorf("got %+v, want a busy subject", d)
		}
	})
}

// A shadow limit refuses nothing, so a throttled write of it is not repeated.
func TestLimiter_Take_throttled_shadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 300, Window: time.Hour}, Shadow: true})
		e, p := pressed(t, false, l)
		for _, s := range l.Subjects(user) {
			p.throttle[s] = 5
		}
		d := take(t, e, limiter.Charge{Subject: user, Limit: l, Cost: 1})
		for _, s := range l.Subjects(user) {
			if !d.Allowed || p.reads != 0 || p.throttle[s] != 4 {
				t.Errorf("got %+v after %d reads and %d writes, want it allowed after one write", d, p.reads, 5-p.throttle[s])
			}
		}
	})
}

// If a subject is busy, its requests are denied with every OnError. The charges on other subjects of the
// request are refunded. If a limit of another subject refuses, the decision names that limit.
func TestLimiter_Take_busy(t *testing.T) {
	for name, err := range map[string]error{
		"lost races":   limiter.ErrContended,
		"no time left": fmt.Errorf("%w: no time for more: %w", limiter.ErrContended, context.DeadlineExceeded),
	} {
		for _, policy := range []limiter.OnError{limiter.OnErrorAllow, limiter.OnErrorDeny, limiter.OnErrorLocal} {
			t.Run(fmt.Sprintf("%s, %s", name, policy), func(t *testing.T) {
				r := newRemote()
				n := 0
				l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler), IntN: func(int) int { n++; return n % 3 }}))
				share := 0
				if policy == limiter.OnErrorLocal {
					share = 1
				}
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: perMinute(t, "a", 10).Rate, OnError: policy,
					LocalProcesses: share})}
				theirs := limiter.Charge{Subject: other, Cost: 1, Limit: perMinute(t, "theirs", 1)}
				r.fail = map[limiter.Subject]error{user: err}
				for _, wait := range []time.Duration{2 * time.Second, 3 * time.Second, time.Second} {
					if d := take(t, l, c); d.Allowed || d.Failed || d.Limit != nil || d.Reason != limiter.ReasonBusy || d.RetryAfter != wait {
						t.Errorf("got %+v, want a busy subject and a wait of %s", d, wait)
					}
				}
				if d := take(t, l, theirs, c); d.Allowed || d.Reason != limiter.ReasonBusy || d.Refunds.Given != 1 {
					t.Errorf("with another subject: got %+v, want a busy subject and one refund, for the other subject", d)
				}
				if d := take(t, l, theirs); !d.Allowed {
					t.Errorf("the other subject: got %+v, want an admission, because the charge was refunded", d)
				}
				if d := take(t, l, theirs, c); d.Allowed || d.Limit != theirs.Limit || d.Reason != limiter.ReasonNone {
					t.Errorf("refused by another subject too: got %+v, want a refusal by limit \"theirs\"", d)
				}
				if look := mustPeek(t, l, noon, c); look.Reason != limiter.ReasonBusy || look.Allowed {
					t.Errorf("Peek: got %+v, want a busy subject", look)
				}
			})
		}
	}
}

// A shadow limit whose subject is busy refuses no request.
func TestLimiter_Take_busy_shadow(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	tried := limit(t, limiter.Limit{Name: "a", Rate: perMinute(t, "a", 10).Rate, Shadow: true})
	for _, s := range tried.Subjects(user) {
		r.fail = map[limiter.Subject]error{s: limiter.ErrContended}
	}
	if d := take(t, l, limiter.Charge{Subject: user, Limit: tried, Cost: 1}); !d.Allowed || d.Reason != limiter.ReasonNone {
		t.Errorf("got %+v, want it allowed", d)
	}
}

// Answered returns false if DynamoDB throttles the whole table, and true if it throttles one item.
func TestAnswered_throttled(t *testing.T) {
	if limiter.Answered(fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrThrottled)) ||
		!limiter.Answered(errors.Join(limiter.ErrUnavailable, limiter.ErrItemThrottled)) {
		t.Error("Answered: got a wrong result, want true for a throttled item and false for a throttled table")
	}
}
