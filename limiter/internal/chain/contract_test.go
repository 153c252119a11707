package chain_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/counters"
	"github.com/weir-limits/weir/limiter/internal/deny"
	"github.com/weir-limits/weir/limiter/internal/fallback"
	"github.com/weir-limits/weir/limiter/internal/groups"
	"github.com/weir-limits/weir/limiter/internal/health"
	"github.com/weir-limits/weir/limiter/internal/leases"
	"github.com/weir-limits/weir/limiter/internal/outage"
	"github.com/weir-limits/weir/limiter/internal/regions"
	"github.com/weir-limits/weir/limiter/internal/shards"
	"github.com/weir-limits/weir/limiter/internal/table"
	"github.com/weir-limits/weir/limiter/internal/throttle"
	"github.com/weir-limits/weir/limiter/internal/wire"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	user = limiter.User("alice")
)

// recorder is the layer below those of a test: a store that fails at random, and records what it has charged.
type recorder struct {
	*rand.Rand
	*memstore.Store
	charged map[limiter.ID]int64 // without what was refunded
	calls   int
}

// Know implements chain.Layer.
func (r *recorder) Know(*chain.Ask) bool { return false }

// Take implements chain.Layer.
func (r *recorder) Take(a *chain.Ask) {
	r.calls++
	switch r.IntN(16) {
	case 0:
		a.Fail(limiter.ErrUnavailable)
		return
	case 1, 2:
		a.Fail(fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled))
		return
	case 3:
		a.DropSpares()
	}
	a.Calls++
	taken, err := r.Store.Take(ctx, a.Now, a.Charges[0].Subject, a.Charges, a.Results)
	if !taken && a.Refuser() == nil && a.DropSpares() {
		taken, err = r.Store.Take(ctx, a.Now, a.Charges[0].Subject, a.Charges, a.Results)
	}
	a.Answer(taken, err)
	for _, c := range a.Charges {
		if taken && c.Cost > 0 {
			r.charged[c.Limit.ID] += c.Cost
		}
	}
}

// Settle implements chain.Layer.
func (r *recorder) Settle(c *chain.Correction) {
	if slices.ContainsFunc(c.Parts, func(p chain.Part) bool { return !p.Done && (p.Taken != nil || p.Local) }) {
		panic("a correction that a layer above owns")
	}
	wire.Settle(c, func(ctx context.Context, charges []limiter.Charge, results []algo.Result) (limiter.Settled, error) {
		for _, c := range charges {
			if c.Force {
				r.charged[c.Limit.ID] += c.Cost
			} else {
				r.charged[c.Limit.ID] -= c.Cost
			}
		}
		return r.Store.Settle(ctx, c.Now, charges[0].Subject, charges, results, c.Elapsed)
	})
}

// contract is a chain of layers above a recorder, and what it has admitted.
type contract struct {
	*recorder
	*table.Table
	order    []string
	health   health.Health
	cache    *table.Cache
	trackers *table.Trackers
	counts   *fallback.Counts
	others   []limiter.Shares
	admitted map[limiter.ID]int64
	now      time.Time
}

func newContract(seed uint64, order []string) *contract {
	r := &recorder{Rand: rand.New(rand.NewPCG(seed, 0)), Store: storetest.Must(memstore.New(memstore.Options{})),
		charged: map[limiter.ID]int64{}}
	t := table.New(1000)
	return &contract{recorder: r, Table: t, order: order, now: noon, admitted: map[limiter.ID]int64{}, counts: fallback.New(t),
		cache: &table.Cache{Table: t, TTL: time.Second, IntN: r.IntN}, trackers: &table.Trackers{Table: t, IntN: r.IntN},
		others: []limiter.Shares{nil, storetest.Must(memstore.New(memstore.Options{})), storetest.Must(memstore.New(memstore.Options{}))}}
}

// Now and Sleep implement limiter.Clock. Nothing waits.
func (k *contract) Now() time.Time { return k.now }
func (k *contract) Sleep(_ context.Context, d time.Duration) error {
	k.now = k.now.Add(d)
	return nil
}

// layers returns the chain. What it knows of earlier requests is in the table, so a new one can replace it at any time.
func (k *contract) layers() (top chain.Layer) {
	p := &chain.Process{Health: &k.health, Cache: k.cache, Trackers: k.trackers, Clock: k, IntN: k.IntN,
		Log: func(context.Context, algo.Instant, error) {}}
	top = k.recorder
	for _, name := range slices.Backward(k.order) {
		below := top
		top = map[string]chain.Layer{
			"leases":   &leases.Leases{Below: below, Process: p},
			"outage":   &outage.Outage{Below: below, Process: p, Fallback: k.counts},
			"counters": &counters.Counters{Below: below, Process: p, Store: k.recorder},
			"shards":   &shards.Shards{Below: below, Process: p},
			"regions":  &regions.Regions{Below: below, Process: p, Own: k.Store, All: k.others},
			"deny":     &deny.Deny{Below: below, Process: p},
			"groups":   &groups.Groups{Below: below, Process: p, Margin: time.Millisecond},
			"throttle": &throttle.Throttle{Below: below, Process: p},
		}[name]
	}
	return top
}

// ask returns an ask of random charges on some of the limits.
func (k *contract) ask(limits []*limiter.Limit) *chain.Ask {
	request := chain.NewRequest(ctx, k.now, k.IntN(8) == 0, &chain.Timeouts{})
	a := &chain.Ask{Request: &request, Subject: user}
	first := limits[k.IntN(len(limits))]
	for _, l := range limits {
		if l != first && (k.IntN(3) > 0 || l.Spread.Shards > 0 || first.Spread.Shards > 0) {
			continue
		}
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1 + k.Int64N(3)}
		line := chain.Line{Limit: l, Want: c.Cost}
		if a.Look {
			c.Cost = 0
		}
		a.Add(line, c, algo.Result{})
	}
	return a
}

// check fails the test if the answer to a breaks a rule. before is what had been charged, and called whether the recorder was.
func (k *contract) check(a *chain.Ask, before map[limiter.ID]int64, called bool) error {
	switch {
	case a.Verdict == chain.Unanswered, a.Verdict >= chain.Busy && a.Err == nil:
		return fmt.Errorf("got the verdict %d and error %w, want an answer", a.Verdict, a.Err)
	case a.Verdict == chain.Refused && a.Refuser() == nil && !slices.ContainsFunc(a.Lines, func(l chain.Line) bool {
		return l.Limit.Spread.Sync > 0 // its share can have changed since
	}):
		return fmt.Errorf("got a refusal of %+v, want a state or a wait that refuses", a.Results)
	case !k.counting(a) && !decided(a):
		return fmt.Errorf("got states %+v of the charges %+v, want states of their limits", a.Results, a.Charges)
	case a.Verdict != chain.Admitted && !k.counting(a) && !maps.Equal(before, k.charged):
		return fmt.Errorf("verdict %d: got charges %v after %v, want none", a.Verdict, k.charged, before)
	case !called && !maps.Equal(before, k.charged):
		return fmt.Errorf("got charges %v after %v without a call", k.charged, before)
	}
	for id, n := range k.admitted {
		if n > k.charged[id] {
			return fmt.Errorf("got %d admitted of limit %s, want at most the %d charged", n, id, k.charged[id])
		}
	}
	return nil
}

// decided reports whether each known state of a is one of the limit that a charges.
func decided(a *chain.Ask) bool {
	for i, r := range a.Results {
		if r.Machine != nil && !a.Decided(i) {
			return false
		}
	}
	return true
}

// counting reports whether a has a limit with a counter, whose syncs the recorder charges at any time.
func (k *contract) counting(a *chain.Ask) bool {
	return slices.ContainsFunc(a.Lines, func(l chain.Line) bool { return l.Limit.Spread.Sync > 0 })
}

// count adds what a was admitted, and what a correction changed. Counters and the fallback exceed what was charged.
func (k *contract) count(lines []chain.Line, costs func(i int) int64) {
	for i, l := range lines {
		if !l.Local && l.Limit.Spread.Sync == 0 {
			k.admitted[l.Limit.ID] += costs(i)
		}
	}
}

// run drives a chain by random asks and corrections.
func (k *contract) run(limits []*limiter.Limit) error {
	top, open := k.layers(), []*chain.Ask{}
	for step := range 400 {
		k.now = k.now.Add(time.Duration(k.IntN(300)) * time.Millisecond)
		if k.IntN(20) == 0 {
			top = k.layers() // new rules make a new chain
		}
		a, before, calls := k.ask(limits), maps.Clone(k.charged), k.calls
		k.health.Active.Store(1)
		if k.IntN(3) > 0 || !top.Know(a) {
			top.Take(a)
		}
		if a.Verdict == chain.Admitted && !a.Look {
			k.count(a.Lines, func(i int) int64 { return a.Lines[i].Want })
			open = append(open, a)
		}
		if err := k.check(a, before, k.calls != calls); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if len(open) > 0 && k.IntN(3) == 0 {
			if err := k.settle(top, open[0]); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
			open = open[1:]
		}
	}
	return nil
}

// settle corrects a to random costs.
func (k *contract) settle(top chain.Layer, a *chain.Ask) error {
	actual := map[*limiter.Limit]int64{}
	for _, l := range a.Lines {
		actual[l.Limit] = k.Int64N(3)
	}
	c := a.Correct(func(charge limiter.Charge) int64 { return actual[charge.Limit] })
	request := chain.NewRequest(ctx, k.now, false, &chain.Timeouts{})
	c.Request, c.Elapsed = &request, k.now.Sub(a.At)
	top.Settle(&c)
	if slices.ContainsFunc(c.Parts, func(p chain.Part) bool { return !p.Done }) {
		return fmt.Errorf("settlement: got corrections that nobody made in %+v", c.Parts)
	}
	lines := make([]chain.Line, len(c.Parts))
	for i, p := range c.Parts {
		lines[i] = p.Line
	}
	k.count(lines, func(i int) int64 { return actual[c.Parts[i].Limit] - c.Parts[i].Want })
	return nil
}

// Each layer, and each random chain of layers, keeps the rules of package chain.
func TestContract(t *testing.T) {
	names := []string{"leases", "outage", "counters", "shards", "regions", "deny", "groups", "throttle"}
	of := func(name string, requests int64, s limiter.Spread, r algo.Regions) *limiter.Limit {
		return storetest.Must(limiter.NewLimit(limiter.Limit{Name: name, Spread: s, Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: requests,
			Window:   24 * time.Hour, Regions: r}}))
	}
	limits := []*limiter.Limit{of("plain", 60, limiter.Spread{}, algo.Regions{}), of("large", 20_000, limiter.Spread{}, algo.Regions{}),
		storetest.Must(limiter.NewLimit(limiter.Limit{Name: "open", OnError: limiter.OnErrorAllow,
			Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 60, Window: 24 * time.Hour}})),
		of("leased", 90, limiter.Spread{Lease: 8}, algo.Regions{}), of("sharded", 60, limiter.Spread{Shards: 3}, algo.Regions{}),
		of("synced", 200, limiter.Spread{Sync: time.Second}, algo.Regions{}), of("regional", 60, limiter.Spread{}, algo.Regions{Of: 3})}
	for seed := range uint64(600) {
		order := names[seed%8 : seed%8+1]
		if seed >= 80 { // any layers, in the order of a Limiter, or with two neighbours exchanged below leases
			r := rand.New(rand.NewPCG(seed, 1))
			order = slices.DeleteFunc(slices.Clone(names), func(string) bool { return r.IntN(3) == 0 })
			if i := 1 + r.IntN(2*len(names)); i+1 < len(order) {
				order[i], order[i+1] = order[i+1], order[i]
			}
		}
		if err := newContract(seed, order).run(limits); err != nil {
			t.Fatalf("seed %d, chain %v: %v", seed, order, err)
		}
	}
}

// An ask has the instant of the layer that refused a part of it: counts of an outage have another clock.
func TestAsk_Merge(t *testing.T) {
	r, later := chain.NewRequest(ctx, noon, false, nil), chain.NewRequest(ctx, noon.Add(time.Second), false, nil)
	a := chain.Ask{Request: &r, Lines: make([]chain.Line, 2), Charges: make([]limiter.Charge, 2), Results: make([]algo.Result, 2)}
	below := a.Split(func(i int) bool { return i == 1 })
	below.Request, below.Verdict = &later, chain.Refused
	a.Merge(below)
	if a.Now != later.Now || a.Verdict != chain.Refused || len(a.Lines) != 2 {
		t.Errorf("got verdict %d at %s and %d charges, want the refusal of both at %s", a.Verdict, a.Now.Time(), len(a.Lines), later.Now.Time())
	}
}
