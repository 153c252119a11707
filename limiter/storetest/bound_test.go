package storetest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// spread is the largest difference between two clocks. late is the longest delay of a message.
const (
	spread = time.Second
	late   = 500 * time.Millisecond
	length = 4 * time.Second // length of every window
)

var start = algo.InstantOf(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))

var algorithms = []algo.Algorithm{algo.FixedWindow, algo.LeakyBucket, algo.SlidingLog, algo.SlidingWindow, algo.TokenBucket}

func versions(t *testing.T, rates ...algo.Rate) (limits []*limiter.Limit) {
	t.Helper()
	for i, rate := range rates {
		l := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "l", Rate: rate, Version: int64(i + 1)}))
		limits = append(limits, l)
	}
	return limits
}

// Admissions minus refunds never exceed the documented bound in any interval, although clocks are
// skewed and messages and refunds are late.
func TestModel_bound(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			limits := versions(t, algo.Rate{Algorithm: algorithm, Requests: 8, Window: length})
			refunded, closest := 0, 0.0
			for seed := range uint64(4000) {
				w := newWorld(seed, limits, 0)
				admitted := w.run()
				refunded += w.refunded
				closest = max(closest, within(t, fmt.Sprint("seed ", seed), admitted, func(apart time.Duration) float64 {
					return bound(algorithm, apart+spread+late)
				}))
			}
			t.Logf("%d refunds, at most %.0f%% of the bound", refunded, 100*closest)
			if refunded == 0 || closest < 0.6 {
				t.Errorf("histories: got %d refunds and at most %.0f%% of the bound, want at least one refund and 60%%", refunded, 100*closest)
			}
		})
	}
}

// bound returns the documented number of requests that a limit of 8 in 4 s may admit in an interval of
// length apart.
func bound(algorithm algo.Algorithm, apart time.Duration) float64 {
	windows := float64(apart) / float64(length)
	switch algorithm {
	case algo.FixedWindow:
		return 8 * (2 + math.Floor(windows))
	case algo.SlidingLog:
		return 8 * (1 + math.Floor(windows))
	default:
		return 8 * (1 + windows)
	}
}

// Two versions of the rules charge one subject, by clocks with different errors. At one instant they admit at most
// the larger capacity. Afterwards they admit at most the faster rate.
func TestModel_versions(t *testing.T) {
	for _, from := range algorithms {
		for _, to := range algorithms {
			// A fixed window exceeds this bound, because its whole quota returns at one instant.
			if from == algo.FixedWindow || to == algo.FixedWindow {
				continue
			}
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				for i, requests := range []int64{8, 3, 20} {
					limits := versions(t, algo.Rate{Algorithm: from, Requests: 8, Window: length}, algo.Rate{Algorithm: to, Requests: requests,
						Window: length})
					most := float64(max(8, requests))
					for seed := range uint64(300) {
						admitted := newWorld(seed, limits, int(seed%30)).run()
						within(t, fmt.Sprintf("requests %d, seed %d", i, seed), admitted, func(apart time.Duration) float64 {
							return most * (1 + float64(apart+2*spread+2*late)/float64(length))
						})
					}
				}
			})
		}
	}
}

// After newer rules have charged a subject, a process with older rules gets the same answers as a
// process with the newer rules. So two versions at the same time neither create nor lose quota.
func TestModel_flapping(t *testing.T) {
	for _, from := range algorithms {
		for _, to := range algorithms {
			for _, requests := range []int64{8, 3, 20} {
				limits := versions(t, algo.Rate{Algorithm: from, Requests: 8, Window: length}, algo.Rate{Algorithm: to, Requests: requests,
					Window: length})
				r := rand.New(rand.NewPCG(uint64(requests), 3))
				both, newer := &storetest.Model{}, &storetest.Model{}
				who, now, converted := limiter.User("flapping"), start, false
				for i := range 2000 {
					now = now.Add(time.Duration(r.Int64N(int64(length/8))) - length/32)
					limit := limits[0]
					if i > 20 && r.IntN(2) == 0 {
						limit, converted = limits[1], true
					}
					charge := []limiter.Charge{{Subject: who, Limit: limit, Cost: 1 + r.Int64N(3)}}
					got, results := both.Take(now, who, charge)
					if converted {
						charge[0].Limit = limits[1]
					}
					want, same := newer.Take(now, who, charge)
					if got != want || results[0].State != same[0].State {
						t.Fatalf("%s to %s of %d, request %d: got allowed %t with state %+v, want %t with %+v", from, to, requests, i, got, results[0].State,
							want, same[0].State)
					}
				}
			}
		}
	}
}

// world is a random history of one subject. now is the true time. The clocks of the processes differ
// from now by skews.
type world struct {
	*rand.Rand
	limits   []*limiter.Limit
	newer    int // after this step, half of the requests use the last version
	skews    []time.Duration
	model    storetest.Model
	now      algo.Instant
	step     int
	messages []message
	admitted []*admission
	refunded int
}

// message is a request or a refund in flight. For a refund, the field of is the admission that the message
// refunds. For a request, it is nil.
type message struct {
	due     algo.Instant // true time of the arrival
	sent    algo.Instant // true time of the sending
	clock   algo.Instant // time of the sending by the sender's clock
	charges []limiter.Charge
	of      *admission
	elapsed time.Duration
}

type admission struct {
	message
	results  []algo.Result
	at       algo.Instant // true time of the admission
	returned bool
}

func newWorld(seed uint64, limits []*limiter.Limit, newer int) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 5)), limits: limits, newer: newer, model: storetest.Model{Margin: spread + late}}
	w.now = start.Add(time.Duration(w.Int64N(int64(length))))
	for range 3 {
		w.skews = append(w.skews, time.Duration(w.Int64N(int64(spread)+1))-spread/2)
	}
	return w
}

// run returns the admissions that were not refunded.
func (w *world) run() []*admission {
	eager := time.Duration(1 + w.Int64N(int64(length)/4))
	for w.step = range 40 {
		w.now = w.now.Add(time.Duration(w.Int64N(int64(eager))))
		w.deliver(w.now)
		w.send()
	}
	w.deliver(w.now.Add(late))
	return slices.DeleteFunc(w.admitted, func(a *admission) bool { return a.returned })
}

// send sends a request, or a refund of an answered request.
func (w *world) send() {
	m := message{sent: w.now, due: w.now.Add(time.Duration(w.Int64N(int64(late) + 1)))}
	if len(w.admitted) > 0 && w.IntN(5) == 0 {
		of := w.admitted[w.IntN(len(w.admitted))]
		m.of = of
		if !of.returned {
			of.returned = true
			m.elapsed = w.now.Sub(of.sent)
			w.messages = append(w.messages, m)
		}
		return
	}
	limit := w.limits[0]
	if w.step >= w.newer && w.IntN(2) == 0 {
		limit = w.limits[len(w.limits)-1]
	}
	m.clock = w.now.Add(w.skews[w.IntN(len(w.skews))])
	m.charges = []limiter.Charge{{Subject: limiter.User("world"), Limit: limit, Cost: 1 + w.Int64N(3)}}
	w.messages = append(w.messages, m)
}

// deliver delivers the messages that are due before an instant, in order.
func (w *world) deliver(until algo.Instant) {
	slices.SortFunc(w.messages, func(a, b message) int { return int(a.due - b.due) })
	for len(w.messages) > 0 && w.messages[0].due <= until {
		m := w.messages[0]
		w.messages = w.messages[1:]
		if m.of != nil {
			w.model.Settle(m.due, m.of.charges[0].Subject, m.of.charges, m.of.results, m.elapsed)
			w.refunded++
		} else if ok, results := w.model.Take(m.clock, m.charges[0].Subject, m.charges); ok {
			w.admitted = append(w.admitted, &admission{message: m, results: results, at: m.due})
		}
	}
}

// within compares the admissions of every interval with the bound of the interval. It returns the
// highest share of a bound that an interval reached.
func within(t *testing.T, what string, admitted []*admission, bound func(apart time.Duration) float64) (closest float64) {
	t.Helper()
	for from := range admitted {
		sum := int64(0)
		for _, a := range admitted[from:] {
			sum += a.charges[0].Cost
			apart := a.at.Sub(admitted[from].at)
			most := bound(apart)
			if float64(sum) > most+1e-6 {
				t.Fatalf("%s: got %d admitted in %s, want at most %.2f", what, sum, apart, most)
			}
			closest = max(closest, float64(sum)/most)
		}
	}
	return closest
}
