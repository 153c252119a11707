package limiter_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// With every pattern of failures, one environment never admits more than the limit: a store that never fails could
// admit the same requests. Therefore, n environments admit at most n times the limit. Each seed draws an algorithm, a
// Spread, a Count, an OnError and LocalProcesses. In its history, requests charge several subjects and settle later, at
// any cost. New rules arrive, with the same and with other numbers, and a second
// environment charges the same subjects. A caller whose costs are below the limit is never refused by it.
func TestOutage_environment(t *testing.T) {
	rounds := uint64(400)
	if testing.Short() {
		rounds = 100
	}
	admitted, honest := 0, 0
	for seed := range rounds {
		e := newEnvironment(t, seed)
		t.Run(fmt.Sprintf("seed %d, %s", seed, e), func(t *testing.T) {
			e.t = t
			for range 400 {
				e.step()
			}
		})
		admitted, honest = admitted+e.admitted, honest+e.honest
	}
	if admitted < int(rounds)*20 || honest < int(rounds)*3 {
		t.Errorf("got %d admissions and %d requests of an honest caller in %d histories, want more", admitted, honest, rounds)
	}
}

// environment is the history of one environment.
type environment struct {
	t           *testing.T
	random      *rand.Rand
	store       *fateful
	own, others *limiter.Limiter
	now         time.Time
	drawn       limiter.Limit
	mine        *limiter.Limit // drawn, under the present rules
	all, soft   *limiter.Limit
	models      map[model]*feasible
	open        []openRequest
	windows     int // how often the window of mine changed
	admitted    int
	least       int64 // the smallest part of mine so far
	spent       int64 // costs of the honest caller
	honest      int   // its requests
}

type model struct {
	subject limiter.Subject
	name    string
}

type openRequest struct {
	receipt *limiter.Receipt
	charges []limiter.Charge
	states  []algo.State // states of the models after the charges
	window  int          // environment.windows at the charges
}

func newEnvironment(t *testing.T, seed uint64) *environment {
	random := rand.New(rand.NewPCG(seed, 3))
	pick := func(n int) int { return random.IntN(n) }
	e := &environment{t: t, random: random, now: noon, models: map[model]*feasible{}}
	rates := append(slices.Clone(outageRates), algo.Rate{Requests: 6, Window: time.Minute})
	i := pick(len(rates))
	spreads, ok := map[algo.Algorithm][]limiter.Spread{
		algo.SlidingLog:  {{}, {}, {Shards: 3}},
		algo.LeakyBucket: {{}},
	}[rates[i].Algorithm]
	if !ok {
		spreads = []limiter.Spread{{}, {}, {Lease: 5}, {Shards: 3}}
	}
	l := limiter.Limit{Name: "mine", Rate: rates[i], Spread: spreads[pick(len(spreads))], OnError: []limiter.OnError{limiter.OnErrorLocal,
		limiter.OnErrorLocal, limiter.OnErrorAllow, limiter.OnErrorDeny}[pick(4)]}
	switch {
	case i == len(rates)-1:
		l.Spread, l.Count = limiter.Spread{}, limiter.Count{Of: limiter.CountConcurrent}
	case l.Spread == limiter.Spread{}:
		l.Count.Of = []limiter.Counted{limiter.CountRequests, limiter.CountCost, limiter.CountFailures, limiter.CountBytes}[pick(4)]
	}
	if l.OnError == limiter.OnErrorLocal {
		l.LocalProcesses = []int{1, 1, 3}[pick(3)]
	}
	e.drawn = l
	e.mine = limit(t, l)
	e.least = min(e.mine.MaxCost(), e.mine.MaxLocalCost())
	if l.Spread.Lease > 0 { // a lost lease takes room
		e.least = 0
	}
	e.all = limit(t, limiter.Limit{Name: "all", Rate: algo.Rate{Requests: 60, Window: time.Minute}, Global: true})
	e.soft = limit(t, limiter.Limit{Name: "soft", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute, Burst: 5},
		Mark: true})
	e.store = &fateful{seed: seed}
	e.store.fated = newFated(e.store.meet)
	var drawing sync.Mutex
	intN := func(n int) int { // several goroutines call intN
		drawing.Lock()
		defer drawing.Unlock()
		return random.IntN(n)
	}
	options := limiter.Options{IntN: intN, Logger: slog.New(slog.DiscardHandler)}
	if pick(2) == 0 {
		options.CacheTTL = -1
	}
	e.own, e.others = storetest.Must(limiter.New(e.store, options)), storetest.Must(limiter.New(e.store, options))
	return e
}

func (e *environment) String() string {
	return fmt.Sprintf("%s %+v count %q %s %d", e.drawn.Rate.Algorithm, e.drawn.Spread, e.drawn.Count.Of, e.drawn.OnError,
		e.drawn.LocalProcesses)
}

// fateful is a shared store that fails during outages and sometimes between them. It loses calls and answers, and
// executes calls late. What happens to a call depends only on the seed, the step of the history and the subject, so that
// concurrent calls do not make a history random.
type fateful struct {
	fated
	seed, step uint64
	down       bool // most calls fail

	mu   sync.Mutex
	late []lateCall
}

// lateCall is a call that the store executes in a later step.
type lateCall struct {
	subject string
	call    func()
}

// begin begins a step. It begins or ends an outage, and executes late calls.
func (f *fateful) begin(random *rand.Rand) {
	f.step++
	if random.IntN(12) == 0 {
		f.down = !f.down
	}
	slices.SortStableFunc(f.late, func(a, b lateCall) int { return cmp.Compare(a.subject, b.subject) })
	for len(f.late) > 0 && random.IntN(3) == 0 {
		i := random.IntN(len(f.late))
		f.late[i].call()
		f.late = slices.Delete(f.late, i, i+1)
	}
}

// meet executes a call at once, late or never. It returns the simulated error, or nil.
func (f *fateful) meet(subject limiter.Subject, kind uint64, call func()) error {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, f.seed, f.step, subject, kind)
	random := rand.New(rand.NewPCG(hash.Sum64(), 1))
	fate := random.IntN(5)
	if !f.down && random.IntN(20) > 0 {
		fate = 5
	}
	switch fate {
	case 0:
		return errRefused
	case 1:
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrBreakerOpen)
	case 2: // the answer is lost
		call()
		return errHangs
	case 3:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, lateCall{subject.String(), call})
		return errHangs
	case 4:
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrThrottled)
	}
	call()
	return nil
}

// step is one event of the history.
func (e *environment) step() {
	e.now = e.now.Add(1 + time.Duration(e.random.Int64N(int64(400*time.Millisecond))))
	if e.random.IntN(100) == 0 {
		e.now = e.now.Add(time.Duration(e.random.Int64N(int64(time.Minute))))
	}
	e.store.begin(e.random)
	switch n := e.random.IntN(60); {
	case n == 0:
		e.reload()
	case n < 15 && len(e.open) > 0:
		e.settle()
	case n < 20:
		takeAt(e.t, e.others, e.now, e.charges()[0]) // one subject: a refund of another process can lower a count on which this one relies
	case n < 24:
		e.takeHonest()
	default:
		e.take()
	}
}

func (e *environment) charges() []limiter.Charge {
	cost, user := 1+e.random.Int64N(2), e.random.IntN(2)
	if e.drawn.Count.Of == limiter.CountConcurrent {
		cost = 1
	}
	subject := func(i int) limiter.Subject { return limiter.User(fmt.Sprint(i % 2)) }
	charges := []limiter.Charge{{Subject: subject(user), Limit: e.mine, Cost: cost}}
	switch e.random.IntN(6) {
	case 0:
		charges = append(charges, limiter.Charge{Subject: limiter.Global(), Limit: e.all, Cost: 1})
	case 1:
		charges = append(charges, limiter.Charge{Subject: subject(user + 1), Limit: e.mine, Cost: cost})
	case 2:
		charges = append(charges, limiter.Charge{Subject: subject(user + e.random.IntN(2)), Limit: e.soft, Cost: 1})
	}
	return charges
}

// take makes a request, and charges the models if it is admitted.
func (e *environment) take() {
	charges := e.charges()
	d, receipt, err := e.own.TakeRefundable(ctx, e.now, charges)
	if err != nil {
		e.t.Fatal(err)
	}
	if !d.Allowed {
		return
	}
	e.admitted++
	r := openRequest{receipt: receipt, window: e.windows}
	for _, c := range charges {
		// With OnErrorAllow, there is no limit in an outage.
		if d.Over == c.Limit || c.Limit.OnError == limiter.OnErrorAllow && d.Reason != limiter.ReasonNone {
			continue
		}
		m := e.model(c)
		if !m.admit(e.now, c.Cost) {
			e.t.Fatalf("%s of %s: got an admission above the limit of one environment, want none: %+v", c.Limit.Name, c.Subject, d)
		}
		r.charges, r.states = append(r.charges, c), append(r.states, m.state)
	}
	if e.random.IntN(2) == 0 || e.drawn.Count.Of == limiter.CountConcurrent {
		e.open = append(e.open, r)
	}
}

// takeHonest makes a request of a caller and settles it. The costs of this caller never exceed the limit or a part of
// it. Refunds are not needed to stay below the limit, because a store can lose them. Therefore the limit refuses no
// such request.
func (e *environment) takeHonest() {
	c, actual := limiter.Charge{Subject: limiter.User("honest"), Limit: e.mine, Cost: 1}, e.random.Int64N(3)
	if e.drawn.Spread != (limiter.Spread{}) || e.drawn.Count.Of == limiter.CountConcurrent {
		actual = min(actual, 1)
	}
	if e.spent+max(c.Cost, actual) > e.least {
		return
	}
	e.spent += max(c.Cost, actual)
	e.honest++
	d, receipt, err := []*limiter.Limiter{e.own, e.others}[e.random.IntN(2)].TakeRefundable(ctx, e.now, []limiter.Charge{c})
	if err != nil || !d.Allowed && !d.Failed {
		e.t.Fatalf("request of an honest caller: got %+v and %v, want it admitted", d, err)
	}
	if receipt != nil {
		receipt.Settle(ctx, e.now.Add(time.Duration(e.random.Int64N(int64(time.Second)))), actually(actual))
	}
}

func (e *environment) model(c limiter.Charge) *feasible {
	key := model{c.Subject, c.Limit.Name}
	if e.models[key] == nil {
		e.models[key] = &feasible{machine: c.Limit.Machine()}
	}
	return e.models[key]
}

// settle settles a request at a random cost. The models refund as much as possible. They charge a higher cost if the
// store did, or if this process has to count it by itself.
func (e *environment) settle() {
	i := e.random.IntN(len(e.open))
	r := e.open[i]
	e.open = slices.Delete(e.open, i, i+1)
	most := int64(3) // with a Spread, the settled cost is never above the reserve: see Receipt.Settle
	if e.drawn.Spread == (limiter.Spread{}) {
		most = 12
	}
	actual := e.random.Int64N(most)
	if e.random.IntN(3) == 0 || e.drawn.Count.Of == limiter.CountConcurrent {
		actual = 0
	}
	cost := func(c limiter.Charge) int64 {
		if c.Limit.Name != "mine" {
			return c.Cost
		}
		if most == 3 {
			return min(actual, c.Cost)
		}
		return actual
	}
	done := r.receipt.Settle(ctx, e.now, cost)
	for j, c := range r.charges {
		m := e.model(c)
		switch more := cost(c) - c.Cost; {
		case more < 0:
			if r.window == e.windows {
				m.state = m.machine.Refund(m.state, r.states[j], -more, 0)
			}
		case c.Limit.OnError == limiter.OnErrorLocal || done.Lost+done.Refunds.Dropped == 0:
			for _, excess := range done.Excess { // other usage can leave less room for a debt than the model has
				if excess.Subject == c.Subject {
					more -= excess.Cost
				}
			}
			m.state = m.machine.Force(m.state, algo.InstantOf(e.now), more)
			e.forgive(m)
		}
	}
}

// reload brings new rules into force: with the same numbers, with other numbers, or with another window. The models
// forget what they counted in another window.
func (e *environment) reload() {
	next, same := e.mine.Rate, e.drawn.Rate
	next.Requests, next.Window, next.Burst = same.Requests, same.Window, same.Burst
	switch kind := e.random.IntN(3); {
	case kind == 0:
		next = e.mine.Rate
	case kind == 1 && e.drawn.Spread.Shards > 0: // see Spread.Shards
	case kind == 1 && same.Burst == 0:
		next.Window = e.mine.Rate.Window
		next.Requests = same.Requests/2 + e.random.Int64N(same.Requests)
	case kind == 1:
		next.Burst = same.Burst/2 + e.random.Int64N(same.Burst)
	case kind == 2:
		next.Window = []time.Duration{time.Minute, 30 * time.Second, 2 * time.Minute}[e.random.IntN(3)]
	}
	e.drawn.Version++
	l := e.drawn
	l.Rate = next
	before := e.mine.Rate
	e.mine = limit(e.t, l)
	if e.mine.Rate.Window != before.Window {
		e.windows++
	}
	e.least = min(e.least, e.mine.MaxCost(), e.mine.MaxLocalCost())
	if e.windows > 0 && e.mine.Rate.Algorithm == algo.SlidingWindow {
		e.least = 0 // a conversion can count an old window twice
	}
	for key, m := range e.models {
		if key.name != "mine" {
			continue
		}
		m.machine = e.mine.Machine()
		if e.mine.Rate.Window != before.Window {
			m.state = algo.State{}
		}
		e.forgive(m)
	}
}

// forgive removes the debt of a bucket after new rules. A conversion keeps at most the depth of the bucket, and the store
// can convert it later than the models.
func (e *environment) forgive(m *feasible) {
	if b, ok := m.machine.(*algo.Bucket); ok && e.drawn.Version > 0 {
		m.state.TAT = min(m.state.TAT, algo.InstantOf(e.now).Add(b.Depth))
	}
}
