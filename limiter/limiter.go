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

	remote   bool // other processes charge the same store
	layers   [allOptional + 1]chain.Layer
	groups   *groups.Groups // nil for a Local store, as are trackers and fallback
	trackers *table.Trackers
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
	l := &Limiter{store: store, timeouts: chain.Timeouts{Usual: o.Timeout, Remote: remote}, intN: o.IntN, log: logs{Logger: o.Logger},
		table: table.New(o.Subjects)}
	if o.Notify != nil {
		l.notices = &notices{Table: l.table, write: o.Notify, log: &l.log}
	}
	own, ok := SharesOf(store)
	if ok {
		l.home = placeOf(o.Regions)
	}
	if local, ok := store.(Local); ok {
		l.timeouts.Usual, l.evicted = 0, local.Evicted
		l.connectLocal(own, o)
		return l, nil
	}
	l.remote, l.evicted = true, l.table.Evicted
	l.clock, _ = o.Clock.(ConcurrentClock)
	l.connect(own, o)
	return l, nil
}

// The layers that a request enters only if one of its limits needs them.
const (
	withCounters = 1 << iota
	withShards
	withRegions
	allOptional = withCounters | withShards | withRegions
)

// optionalLayers returns the set of these layers that a limit needs.
func optionalLayers(limit *Limit) (set int) {
	if limit.Spread.HasCounter() {
		set |= withCounters
	}
	if limit.Spread.Shards > 0 {
		set |= withShards
	}
	if limit.Regions() != nil {
		set |= withRegions
	}
	return set
}

// connect makes the chain of layers, and a shorter one for each set of layers that an ask needs. It makes them from the store
// upward: an ask meets leases first and wire last (decide.go). Each layer calls only the one below it, but counters also
// reports to wire. They share the table of this process and the health of the store.
func (l *Limiter) connect(own Shares, o Options) {
	cache := &table.Cache{Table: l.table, TTL: o.CacheTTL, IntN: o.IntN}
	l.trackers = &table.Trackers{Table: l.table, IntN: o.IntN}
	l.fallback = fallback.New(l.table)

	wire := &wire.Wire{Store: l.store, Health: &l.health, Cache: cache, Clock: o.Clock, IntN: o.IntN}
	throttle := &throttle.Throttle{Below: wire, Trackers: l.trackers, Clock: o.Clock, IntN: o.IntN}
	l.groups = &groups.Groups{Below: throttle, Health: &l.health, Trackers: l.trackers, Margin: o.Timeout / 10}
	deny := &deny.Deny{Below: l.groups, Cache: cache}
	regions := &regions.Regions{Below: deny, Own: own, All: o.Regions, Cache: cache, Health: &l.health, Clock: l.clock, Log: l.log.failure}
	for set := range l.layers {
		below := chain.Layer(deny)
		if set&withRegions != 0 {
			below = regions
		}
		if set&withShards != 0 {
			below = &shards.Shards{Below: below, IntN: o.IntN}
		}
		if set&withCounters != 0 {
			below = &counters.Counters{Below: below, Store: wire, Trackers: l.trackers, IntN: o.IntN, Log: l.log.failure}
		}
		below = &outage.Outage{Below: below, Fallback: l.fallback, Cache: cache, Trackers: l.trackers, Health: &l.health}
		l.layers[set] = &leases.Leases{Below: below, Trackers: l.trackers}
	}
}

// connectLocal makes the chain of a store of this process, which needs no layer but regions.
func (l *Limiter) connectLocal(own Shares, o Options) {
	wire := wire.Local{Store: l.store}
	regions := &regions.Regions{Below: wire, Own: own, All: o.Regions, Log: l.log.failure}
	for set := range l.layers {
		l.layers[set] = wire
		if set&withRegions != 0 {
			l.layers[set] = regions
		}
	}
}

// TransferTimeout bounds the time that a decision waits for share of other regions. DebitTimeout is the part of it that the
// other regions have for their answers. The rest is for the credit in the store of this region.
const (
	TransferTimeout = regions.Timeout
	DebitTimeout    = regions.DebitTimeout
)

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
	if ahead, uncertainty, ok := ClockSkew(l.store); ok && uncertainty <= exactSkew {
		return now.Add(-ahead)
	}
	return now
}
