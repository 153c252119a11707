package limiter

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/clock"
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
)

// Limiter decides requests with a Store. Make one per process with New. It is safe for concurrent use.
type Limiter struct {
	store    Store
	timeouts chain.Timeouts
	home     *algo.Regions // the place of this region among the stores that share limits; nil if the store cannot move share
	intN     func(n int) int
	clock    ConcurrentClock // runs the calls of several subjects; nil for the clock of package time
	log      logs
	own      clock.Process // the time for a Local store
	skew     SkewEstimator // nil if the store has none

	remote   bool // other processes charge the same store
	layers   [1 << optionalLayers]chain.Layer
	groups   *groups.Groups // nil for a Local store
	fallback *fallback.Counts
	health   health.Health
	evicted  func() int64 // see Decision.Evicted
	table    *table.Table // what this process keeps of subjects
	notices  *notices     // nil without Options.Notify
}

// New returns a Limiter that uses store. The error names the option that is out of range.
func New(store Store, o Options) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("limiter: store: got nil, want a Store")
	}
	remote, _ := store.(Remote)
	if remote != nil && o.Timeout == 0 {
		o.Timeout = remote.Timeout()
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, timeouts: chain.Timeouts{Usual: o.Timeout, Remote: remote}, intN: o.IntN,
		log: logs{Logger: o.Logger}, table: table.New(o.Subjects)}
	if o.Notify != nil {
		l.notices = &notices{Table: l.table, write: o.Notify, log: &l.log}
	}
	l.skew, _ = StoreAs[SkewEstimator](store)
	own, ok := SharesOf(store)
	if ok {
		l.home = placeOf(o.Regions)
	}
	l.remote, l.evicted = true, l.table.Evicted.Take
	if local, ok := store.(Local); ok {
		l.remote, l.timeouts.Usual, l.evicted = false, 0, local.Evicted
	} else {
		l.clock, _ = o.Clock.(ConcurrentClock)
	}
	l.connect(own, o)
	return l, nil
}

// The layers that an ask enters only if one of its limits needs them, from the store upward. A layer that connect does not make
// is left out.
const (
	withRegions = iota
	withShards
	withCounters
	optionalLayers
)

// layersOf returns the set of these layers that a limit needs.
func layersOf(limit *Limit) (set int) {
	if limit.Regions() != nil {
		set |= 1 << withRegions
	}
	if limit.Spread.Shards > 0 {
		set |= 1 << withShards
	}
	if limit.Spread.Sync > 0 {
		set |= 1 << withCounters
	}
	return set
}

// connect makes the chain of layers, and a shorter one for each set of layers that an ask needs. It makes them from the store
// upward: an ask meets leases first and wire last (decide.go). Each layer calls only the one below it, but counters also
// sends syncs to wire. A store of this process needs no other layer than regions.
func (l *Limiter) connect(own Shares, o Options) {
	l.fallback = fallback.New(l.table)
	p := &chain.Process{Health: &l.health, Cache: &table.Cache{Table: l.table, TTL: o.CacheTTL, IntN: o.IntN},
		Trackers: &table.Trackers{Table: l.table, IntN: o.IntN}, Clock: o.Clock, Together: l.clock, IntN: o.IntN, Log: l.log.failure}
	lowest, store := chain.Layer(wire.Local{Store: l.store}), &wire.Wire{Store: l.store, Process: p}
	if l.remote {
		l.groups = &groups.Groups{Below: &throttle.Throttle{Below: store, Process: p}, Process: p, Margin: o.Timeout / 10}
		lowest = &deny.Deny{Below: l.groups, Process: p}
	}
	optional := [optionalLayers]func(chain.Below) chain.Layer{
		withRegions:  always(&regions.Regions{Below: lowest, Process: p, Own: own, All: o.Regions}),
		withShards:   func(b chain.Below) chain.Layer { return &shards.Shards{Below: b, Process: p} },
		withCounters: func(b chain.Below) chain.Layer { return &counters.Counters{Below: b, Process: p, Store: store} },
	}
	for set := range l.layers {
		top := lowest
		for i, layer := range optional {
			if set>>i&1 == 1 && layer != nil && (l.remote || i == withRegions) {
				top = layer(top)
			}
		}
		if l.remote {
			top = &leases.Leases{Below: &outage.Outage{Below: top, Process: p, Fallback: l.fallback}, Process: p}
		}
		l.layers[set] = top
	}
}

// always returns one layer, which has a state of its own, for all chains.
func always(l chain.Layer) func(chain.Below) chain.Layer {
	return func(chain.Below) chain.Layer { return l }
}

// Now returns the time for a decision. It is the clock of this process, corrected to the clock of the store if the
// skew is known to within 10 ms. Read it once per request.
//
// When the estimate of the skew changes, Now can jump backward or forward, like a clock that is set. A jump backward
// never causes too many admissions. For a Local store, Now never runs back, and follows a clock that is more than a
// second ahead; the result has no monotonic reading.
func (l *Limiter) Now() time.Time {
	if !l.remote {
		return l.own.Now()
	}
	now := time.Now()
	if l.skew == nil {
		return now
	}
	if ahead, uncertainty, ok := l.skew.ClockSkew(); ok && uncertainty <= exactSkew {
		return now.Add(-ahead)
	}
	return now
}
