package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// scenario is a random sequence of steps under some mechanisms. The seed determines it.
type scenario struct {
	Seed         uint64
	Mechanisms   []string
	Limits       []limiter.Limit // the limits of the caller, and at last the limit of all callers
	Rates        []algo.Rate     // for each limit, the rate under changed rules
	Environments int
	Begin        time.Duration // from start to the first step
	Steps        []move
}

// move is one event of a history. Its kind decides which fields it uses.
type move struct {
	Kind  stepKind
	Env   int
	N     int
	Cost  int64
	Alike bool // see world.step
	For   time.Duration
	Seed  uint64 // of the random numbers of the step; so steps can be left out
}

type stepKind int

// These are the kinds of steps.
const (
	doTake       stepKind = iota // N requests, one after the other
	doTakeMore                   // the same, with charges on several subjects
	doBurst                      // N requests at the same time
	doDrain                      // requests until one is refused
	doSettle                     // settle N requests
	doSettleLate                 // settle a request, with a store that executes it late
	doPass                       // time passes
	doExpire                     // a window or more passes
	doThrottle                   // the store throttles the item for the next N writes
	doStall                      // the next N calls take For
	doLose                       // the next N messages are lost, doubled or late
	doOutage                     // an outage of an environment, or of all, begins or ends
	doReload                     // new rules, with the same numbers or others
	doClock                      // the clock of an environment is set
	doReset                      // an operator resets the caller
	doTier                       // an environment, or all, get another tier of the caller
)

var kindNames = [...]string{"take", "take of several subjects", "burst", "drain", "settle", "settle late", "pass", "expire", "throttle",
	"stall", "lose", "outage", "reload", "clock", "reset", "tier"}

func (s move) String() string {
	return fmt.Sprintf("%s env %d, n %d, cost %d, alike %t, for %s", kindNames[s.Kind], s.Env, s.N, s.Cost, s.Alike, s.For)
}

func (h *scenario) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "seed %d, %s, %d environments\n", h.Seed, strings.Join(h.Mechanisms, " + "), h.Environments)
	for i, l := range h.Limits {
		fmt.Fprintf(b, "  limit %s: %+v, later %+v, spread %+v, count %q, mark %t, shadow %t, on_error %s of %d\n", l.Name, l.Rate, h.Rates[i],
			l.Spread, l.Count.Of, l.Mark, l.Shadow, l.OnError, l.LocalProcesses)
	}
	for i, s := range h.Steps {
		fmt.Fprintf(b, "  %d: %s\n", i, s)
	}
	return b.String()
}

func (h *scenario) has(name string) bool { return slices.Contains(h.Mechanisms, name) }

// lengthOf is the number of steps of a history.
const lengthOf = 40

// newScenario draws a history under the mechanisms. Sometimes it adds the events of a third mechanism. If possible and shared is true,
// the mechanisms configure one limit; otherwise, each configures its own limit of the caller.
func newScenario(seed uint64, rows []*mechanism, shared bool) (*scenario, error) {
	r := rand.New(rand.NewPCG(seed, 9))
	h := &scenario{Seed: seed, Environments: 1 + r.IntN(environments), Begin: time.Duration(r.Int64N(int64(time.Hour)))}
	all := slices.Clip(rows)
	if third := &mechanisms[r.IntN(len(mechanisms))]; r.IntN(2) == 0 && !slices.Contains(rows, third) {
		all = append(all, third)
	}
	weights := map[stepKind]int{doTake: 8, doTakeMore: 2, doDrain: 2, doSettle: 3, doPass: 3}
	for _, m := range all {
		h.Mechanisms = append(h.Mechanisms, m.name)
		for k, n := range m.events {
			weights[k] += n
		}
	}
	var err error
	for range 5 { // seldom, no draw has the algorithm that a mechanism needs
		h.Limits, h.Rates = nil, nil
		err = h.drawLimits(r, rows, shared)
		if err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for range lengthOf {
		h.Steps = append(h.Steps, h.newStep(r, weights))
	}
	for i := range h.Environments {
		h.Steps = append(h.Steps, move{Kind: doDrain, Env: i, Seed: r.Uint64()})
	}
	return h, nil
}

// drawLimits draws the limits. It returns an error if NewLimit refuses the mechanisms of a limit.
func (h *scenario) drawLimits(r *rand.Rand, rows []*mechanism, shared bool) (err error) {
	names := []string{"first"}
	if !shared {
		names = append(names, "second")
	}
	for i, name := range append(names, "all") {
		for range 20 { // not every algorithm can have every mechanism
			l := limiter.Limit{Name: name, Rate: h.newRate(r), Version: 1}
			mine := 0
			for _, m := range rows {
				if m.limit != nil && name != "all" && (shared || mine == i) {
					m.limit(&l)
				}
				if m.limit != nil {
					mine++
				}
			}
			l.Global = name == "all" && r.IntN(2) == 0
			_, err = limiter.NewLimit(l)
			if err == nil {
				h.Limits, h.Rates = append(h.Limits, l), append(h.Rates, h.changedRate(r, l))
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *scenario) newRate(r *rand.Rand) algo.Rate {
	rate := algo.Rate{Algorithm: algorithms[r.IntN(len(algorithms))], Requests: 8 + r.Int64N(20),
		Window: time.Duration(60+10*r.IntN(7)) * time.Second}
	if h.has(pressure) && rate.Algorithm != algo.SlidingLog {
		rate.Requests, rate.Window = 1040, 10*rate.Window // a throttled item gets leases
	}
	if rate.Algorithm == algo.TokenBucket && r.IntN(3) == 0 {
		rate.Burst, rate.Requests = rate.Requests, 20*rate.Requests // it drains fast, so it gets no refund
	}
	return rate
}

var algorithms = []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.TokenBucket, algo.SlidingLog, algo.FixedWindow,
	algo.LeakyBucket}

func (h *scenario) changedRate(r *rand.Rand, l limiter.Limit) algo.Rate {
	before := l.Rate
	for range 20 {
		l.Rate = h.newRate(r)
		if l.Count.Of == limiter.CountConcurrent {
			l.Rate.Algorithm, l.Rate.Requests = "", min(l.Rate.Requests, 300)
		}
		if _, err := limiter.NewLimit(l); err == nil {
			return l.Rate
		}
	}
	return before
}

func (h *scenario) newStep(r *rand.Rand, weights map[stepKind]int) move {
	sum := 0
	for k := range stepKind(len(kindNames)) {
		sum += weights[k]
	}
	s := move{Seed: r.Uint64(), Env: r.IntN(h.Environments), Cost: 1, Alike: r.IntN(2) == 0, N: 1 + r.IntN(3),
		For: time.Duration(r.Int64N(int64(3 * time.Second)))}
	n := r.IntN(sum)
	for n -= weights[s.Kind]; n >= 0; n -= weights[s.Kind] {
		s.Kind++
	}
	switch s.Kind {
	case doTake, doTakeMore, doSettle:
		if r.IntN(3) == 0 {
			s.N = 2 + r.IntN(12)
		}
	case doBurst:
		s.N = 2 + r.IntN(5)
	case doThrottle:
		s.N = 1 + r.IntN(6)
	case doExpire:
		s.For = time.Duration(1+r.IntN(3)) * time.Minute
	case doStall:
		s.For = 100*time.Millisecond + s.For/3
	default:
	}
	if r.IntN(4) == 0 {
		s.Cost = 1 + r.Int64N(3)
	}
	return s
}

// minimized returns the shortest history that still fails, as far as removing steps finds it.
func (h *scenario) minimized(fails func(*scenario) bool) *scenario {
	for size := len(h.Steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(h.Steps); {
			less := *h
			less.Steps = slices.Concat(h.Steps[:from], h.Steps[from+size:])
			if fails(&less) {
				h = &less
			} else {
				from += size
			}
		}
	}
	return h
}
