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

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// world is a store with several writers, one of which is a Limiter. It records every charge in order.
type world struct {
	limiter.Store
	plan plan

	mu       sync.Mutex
	random   *rand.Rand
	inFlight map[limiter.Subject]int
	calls    int
	used     map[limiter.ID]int64   // usage of each limit by all writers
	states   map[limiter.ID][]int64 // the states of each limit so far
	mine     map[limiter.ID]int64   // usage that the Limiter charged
	problems []string
}

type plan struct {
	Seed       uint64
	Goroutines int
	Requests   int // requests of each caller
	Limits     int
	Capacity   int64
	Dearest    int64 // highest cost
	Pause      time.Duration
	Looks      bool
	Alike      bool // every request charges all limits
	Others     int  // charges by another process
	Faults     bool
	Timeout    time.Duration
}

const latency = 10 * time.Millisecond

func drawPlan(t *rapid.T) plan {
	p := plan{
		Seed:       rapid.Uint64().Draw(t, "seed"),
		Goroutines: rapid.IntRange(1, 40).Draw(t, "goroutines"),
		Requests:   rapid.IntRange(1, 6).Draw(t, "requests"),
		Limits:     rapid.IntRange(1, 12).Draw(t, "limits"),
		Capacity:   rapid.Int64Range(1, 120).Draw(t, "capacity"),
		Dearest:    rapid.Int64Range(1, 9).Draw(t, "dearest"),
		Pause:      rapid.SampledFrom([]time.Duration{0, time.Millisecond, 30 * time.Millisecond}).Draw(t, "pause"),
		Looks:      rapid.Bool().Draw(t, "looks"),
		Alike:      rapid.Bool().Draw(t, "alike"),
		Others:     rapid.SampledFrom([]int{0, 0, 5, 60}).Draw(t, "others"),
		Faults:     rapid.Bool().Draw(t, "faults"),
		Timeout:    900 * time.Millisecond,
	}
	if p.Faults {
		p.Timeout = rapid.SampledFrom([]time.Duration{15 * time.Millisecond, 25 * time.Millisecond, 900 * time.Millisecond}).Draw(t, "timeout")
	}
	return p
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// enter counts a call in flight and returns the function that ends it.
func (w *world) enter(s limiter.Subject, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[s] += n
	if w.inFlight[s] > 1 {
		w.problems = append(w.problems, fmt.Sprintf("%d calls of %s in flight", w.inFlight[s], s))
	}
	w.calls += max(0, n)
}

// Take is a call of the Limiter. The store executes it with a delay, and answers with another delay.
func (w *world) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	w.enter(s, 1)
	defer w.enter(s, -1)
	if len(charges) > limiter.MaxCharges {
		w.problem("a call has %d charges", len(charges))
	}
	before := time.Duration(w.draw(int(latency)))
	time.Sleep(before)
	fault := -1
	if w.plan.Faults {
		fault = w.draw(12)
	}
	switch fault {
	case 0:
		return false, limiter.ErrUnavailable
	case 1:
		return false, limiter.ErrContended
	case 2: // the call hangs
		<-ctx.Done()
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	taken, err := w.charge(ctx, now, s, charges, results, true)
	switch fault {
	case 3: // the answer is lost
		return false, limiter.ErrUnavailable
	case 4:
		<-ctx.Done()
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	time.Sleep(latency - before)
	return taken, err
}

// charge charges the store and records the result.
func (w *world) charge(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	mine bool) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken, err := w.Store.Take(ctx, now, s, charges, results)
	if err != nil || !taken {
		return taken, err
	}
	for i, c := range charges {
		id := c.Limit.ID
		w.used[id] += c.Cost
		w.states[id] = append(w.states[id], w.used[id])
		if mine {
			w.mine[id] += c.Cost
		}
		if got := results[i].State.Count; got != w.used[id] || got > w.plan.Capacity {
			w.problems = append(w.problems, fmt.Sprintf("limit %s counts %d, but was charged %d of %d", c.Limit.Name, got, w.used[id],
				w.plan.Capacity))
		}
	}
	return taken, nil
}

// span is the usage of a limit before an admission (from) and after it (to).
type span struct{ from, to int64 }

// outcomes are the answers to the requests of a run.
type outcomes struct {
	mu       sync.Mutex
	spans    map[limiter.ID][]span  // spans of admitted requests whose decision names the limit
	admitted map[limiter.ID]int64   // total cost of the admitted requests
	lost     map[limiter.ID]int64   // total cost of requests for which the store's charge is unknown
	refused  map[limiter.ID][]int64 // costs that the limit refused
}

// note checks the decision on the charges and records it.
func (o *outcomes) note(w *world, charges []limiter.Charge, d limiter.Decision, look bool, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &w.plan
	if took > p.Timeout {
		w.problem("a request took %s, want at most the deadline of %s", took, p.Timeout)
	}
	most := 2 * latency
	// A request can need further calls if another process charges the same limits, or if a call does not return
	// the state of a limit that the request charges.
	if p.Others > 0 || !p.Alike {
		most = 6 * latency
	}
	if !p.Faults && took > most {
		w.problem("a request took %s, want at most %s: %+v", took, most, d)
	}
	switch {
	case d.Reason != limiter.ReasonNone:
		if !p.Faults && (d.Reason != limiter.ReasonBusy || p.Others == 0 && p.Alike) {
			w.problem("got reason %s although no call failed, want none", d.Reason)
		}
		if d.Reason == limiter.ReasonBusy && (d.Allowed || d.RetryAfter < time.Second || d.RetryAfter > 3*time.Second || d.Limit != nil) {
			w.problem("got %+v for a busy subject, want a denial without a limit and a wait of 1 to 3 s", d)
		}
		for _, c := range charges {
			if !look {
				o.lost[c.Limit.ID] += c.Cost
			}
		}
	case d.Allowed:
		for _, c := range charges {
			if !look {
				o.admitted[c.Limit.ID] += c.Cost
			}
		}
		if !look {
			used := p.Capacity - d.Remaining
			o.spans[d.Limit.ID] = append(o.spans[d.Limit.ID], span{used - d.Cost, used})
		}
	default:
		if d.Limit == nil || d.Remaining >= d.Cost || d.RetryAfter <= 0 && d.Cost <= p.Capacity {
			w.problem("got refusal %+v, want a limit, too little remaining quota and a wait", d)
			return
		}
		o.refused[d.Limit.ID] = append(o.refused[d.Limit.ID], d.Cost)
		w.mu.Lock()
		defer w.mu.Unlock()
		// A request of cost 0 can read a state between two charges of one call, which w.states does not contain.
		if used := p.Capacity - d.Remaining; !look && used > 0 && !slices.Contains(w.states[d.Limit.ID], used) {
			w.problems = append(w.problems, fmt.Sprintf("a refusal reports a usage of %d of %s, which is none of its states %v", used, d.Limit.Name,
				w.states[d.Limit.ID]))
		}
	}
}

// check compares the run with a sequence of single charges.
func (o *outcomes) check(w *world) {
	for id, used := range w.mine {
		if lost := o.lost[id]; used < o.admitted[id] || used > o.admitted[id]+lost || !w.plan.Faults && used != o.admitted[id] {
			w.problem("the Limiter charged %d, but %d were admitted and %d are unknown", used, o.admitted[id], lost)
		}
	}
	for id, spans := range o.spans {
		slices.SortFunc(spans, func(a, b span) int { return int(a.to - b.to) })
		last := int64(0)
		for _, s := range spans {
			if s.from < last {
				w.problem("two admissions report the same usage: %v", spans)
			}
			last = s.to
			if !slices.Contains(w.states[id], s.to) && w.used[id] < s.to {
				w.problem("a decision reports a usage of %d, more than the %d at the end", s.to, w.used[id])
			}
		}
		if w.plan.Limits == 1 && !w.plan.Faults && w.plan.Others == 0 {
			for i, s := range spans {
				if i > 0 && s.from != spans[i-1].to || i == 0 && s.from != 0 {
					w.problem("usage that no admission reports: %v", spans)
				}
			}
		}
	}
	for id, costs := range o.refused {
		for _, cost := range costs {
			if w.used[id]+cost <= w.plan.Capacity {
				w.problem("a cost of %d was refused, but %d of %d are used at the end", cost, w.used[id], w.plan.Capacity)
			}
		}
	}
}

// run executes a plan and returns the problems.
func (p plan) run(t *testing.T) []string {
	t.Helper()
	w := &world{Store: storetest.Must(memstore.New(memstore.Options{})), plan: p, random: rand.New(rand.NewPCG(p.Seed, 1)),
		inFlight: map[limiter.Subject]int{},
		used:     map[limiter.ID]int64{}, states: map[limiter.ID][]int64{}, mine: map[limiter.ID]int64{}}
	var limits []*limiter.Limit
	for i := range p.Limits {
		limits = append(limits, limit(t, limiter.Limit{Name: fmt.Sprint("l", i), Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: p.Capacity, Window: 24 * time.Hour}, Spread: limiter.Spread{Lease: 1}, OnError: limiter.OnErrorDeny}))
	}
	o := &outcomes{spans: map[limiter.ID][]span{}, admitted: map[limiter.ID]int64{}, lost: map[limiter.ID]int64{},
		refused: map[limiter.ID][]int64{}}
	synctest.Test(t, func(*testing.T) {
		l := storetest.Must(limiter.New(w, limiter.Options{Timeout: p.Timeout, CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
		var wg sync.WaitGroup
		for range p.Goroutines {
			wg.Go(func() {
				for range p.Requests {
					if p.Pause > 0 {
						time.Sleep(time.Duration(w.draw(int(p.Pause))))
					}
					var charges []limiter.Charge
					cost := 1 + int64(w.draw(int(p.Dearest)))
					for _, limit := range limits {
						if len(charges) < limiter.MaxCharges && (p.Alike || w.draw(2) == 0) {
							charges = append(charges, limiter.Charge{Subject: user, Limit: limit, Cost: cost})
						}
					}
					if len(charges) == 0 {
						continue
					}
					look, begun := p.Looks && w.draw(4) == 0, time.Now()
					decide := l.Take
					if look {
						decide = l.Peek
					}
					d, err := decide(ctx, begun, charges)
					if err != nil {
						w.problem("%v", err)
					}
					o.note(w, charges, d, look, time.Since(begun))
				}
			})
		}
		wg.Go(func() {
			for range p.Others {
				time.Sleep(time.Duration(w.draw(int(latency / 2))))
				c := limiter.Charge{Subject: user, Limit: limits[w.draw(len(limits))], Cost: 1}
				if _, err := w.charge(ctx, algo.InstantOf(time.Now()), user, []limiter.Charge{c}, make([]algo.Result, 1), false); err != nil {
					w.problem("%v", err)
				}
			}
		})
		wg.Wait()
		time.Sleep(time.Second) // lets abandoned calls end
		if n := l.InFlight(); n != 0 {
			w.problem("%d subjects have a call in flight at the end", n)
		}
	})
	o.check(w)
	return w.problems
}

// Group commit keeps its guarantees for any arrivals, deadlines, other writers and store failures:
//
//   - One call is in flight at a time.
//   - The store is charged exactly what was admitted, and no limit is exceeded.
//   - The answers are those of a sequence of single charges.
func TestGroup_property(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if problems := drawPlan(rt).run(t); len(problems) > 0 {
			rt.Fatalf("got %d problems, want none; the first is %s", len(problems), problems[0])
		}
	})
}
