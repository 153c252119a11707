//go:build !race

package simulate

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// fleet has environments with real Limiters and one simulated table, in the fake time of synctest.
// Unlike a simulation, it has several limits, kinds of callers and subjects per request. If all
// environments are busy, one decides several requests at once.
type fleet struct {
	t          *testing.T
	table      *table
	latency    lognormal
	traffic    *rand.Rand
	all        []*member
	free       []*member
	begin, end time.Time
	wg         sync.WaitGroup

	mu sync.Mutex // protects the fields above, because two calls can run at the same time
}

type member struct {
	fleet   *fleet
	limiter *limiter.Limiter
	random  *rand.Rand
	busy    int // requests that it is deciding now
}

// stream describes one kind of requests.
type stream struct {
	name    string
	rate    float64 // requests per second of all callers; unused for patient callers
	charges func(caller int) []limiter.Charge
	start   time.Duration // time of the first request
	stop    time.Duration // time of the last request; 0: the end of the run
	callers int           // number of equally likely callers; 0 means 1
	// A patient caller sends its next request right after an allowed one. After a refusal it first
	// waits as long as the refusal says.
	patient bool

	log                         []request
	admitted, refused, degraded int
	calls                       int
}

func runFleet(t *testing.T, environments int, length time.Duration, prepare func(*table), streams ...*stream) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		from := algo.InstantOf(time.Now())
		f := &fleet{
			t: t, latency: newLognormal(4*time.Millisecond, 12*time.Millisecond),
			traffic: rand.New(rand.NewPCG(1, 2)), begin: time.Now(), end: time.Now().Add(length),
			table: newTable(&meter{from: from, end: from.Add(length)}, 1000),
		}
		prepare(f.table)
		for i := range environments {
			f.all = append(f.all, newMember(t, f, uint64(i)))
		}
		f.free = append(f.free, f.all...)
		for _, s := range streams {
			if s.patient {
				for caller := range max(1, s.callers) {
					f.wg.Go(func() { f.wait(s, caller) })
				}
			} else {
				f.wg.Go(func() { f.send(s) })
			}
			time.Sleep(time.Nanosecond) // one nanosecond, so that no two requests start at the same time
		}
		f.wg.Wait()
	})
}

func newMember(t *testing.T, f *fleet, seed uint64) *member {
	m := &member{fleet: f, random: rand.New(rand.NewPCG(seed, 3))}
	store, err := newDynamo(m, f.table)
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.New(store, limiter.Options{
		Timeout: 100 * time.Millisecond, IntN: m.draw, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.limiter = l
	return m
}

func (m *member) draw(n int) int {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.random.IntN(n)
}

// measured implements link.
func (m *member) measured() bool { return true }

// trip implements link. The store also serves a call that arrives after its timeout.
func (m *member) trip(ctx context.Context, serve func(at algo.Instant)) error {
	f := m.fleet
	f.mu.Lock()
	there := f.latency.draw(m.random) / 2
	f.mu.Unlock()
	arrive := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		serve(algo.InstantOf(time.Now()))
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 2*there {
		time.AfterFunc(there, arrive)
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(there)
	arrive()
	time.Sleep(there)
	return nil
}

func (f *fleet) send(s *stream) {
	random := rand.New(rand.NewPCG(4, math.Float64bits(s.rate)))
	time.Sleep(s.start)
	for {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(time.Second) / s.rate))
		if now := time.Now(); now.After(f.end) || s.stop > 0 && now.After(f.begin.Add(s.stop)) {
			return
		}
		caller := random.IntN(max(1, s.callers))
		f.wg.Go(func() { f.decide(s, caller) })
	}
}

// wait sends the requests of a patient caller one after another.
func (f *fleet) wait(s *stream, caller int) {
	for time.Now().Before(f.end) {
		if d := f.decide(s, caller); !d.Allowed {
			time.Sleep(max(d.RetryAfter, time.Microsecond))
		}
	}
}

// decide sends a request to an idle environment, or to a random one if all are busy.
func (f *fleet) decide(s *stream, caller int) limiter.Decision {
	now := time.Now()
	f.mu.Lock()
	var m *member
	if n := len(f.free); n > 0 {
		i := f.traffic.IntN(n)
		m, f.free[i] = f.free[i], f.free[n-1]
		f.free = f.free[:n-1]
	} else {
		m = f.all[f.traffic.IntN(len(f.all))]
	}
	m.busy++
	f.mu.Unlock()

	d, err := m.limiter.Take(context.Background(), now, s.charges(caller))
	if err != nil {
		f.t.Error(err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	m.busy--
	if m.busy == 0 {
		f.free = append(f.free, m)
	}
	s.log = append(s.log, request{at: algo.InstantOf(now), caller: uint32(caller), admitted: d.Allowed})
	s.calls += d.StoreCalls
	if d.Allowed {
		s.admitted++
	} else {
		s.refused++
	}
	if d.Reason != limiter.ReasonNone {
		s.degraded++
	}
	return d
}
