package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// denials is the denial cache for charges of this package.
type denials struct{ *local.Denials }

// key returns the identity of l in package local.
func (l *Limit) key() local.Limit {
	return local.Limit{ID: uint64(l.ID), Machine: l.machine, Share: l.isLocalShare}
}

// keys appends charges, converted to the type of package local.
func keys(to []local.Charge, charges []Charge) []local.Charge {
	for _, c := range charges {
		to = append(to, local.Charge{Limit: c.Limit.key(), Cost: c.Cost, Force: c.Force})
	}
	return to
}

// record caches the states that the store returned for charges on subject.
func (d denials) record(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, taken bool) {
	var room [MaxCharges]local.Charge
	d.Record(now, subject.String(), keys(room[:0], charges), results, taken)
}

// lookup fills results and backOffs from the cache, and reports whether the cache denies.
func (d denials) lookup(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, backOffs []time.Duration) (denies bool) {
	var room [MaxCharges]local.Charge
	return d.Lookup(now, subject.String(), keys(room[:0], charges), results, backOffs)
}

// last returns the cached state of limit, of any age, converted to the parameters of limit at now. For a
// limit with shards, the result is the sum of all shards.
func (d denials) last(now algo.Instant, subject Subject, limit *Limit) (s algo.State) {
	if limit.Spread.Shards == 0 {
		if r := d.Last(subject.String(), uint64(limit.ID)); r.Machine != nil {
			s = local.Convert(r.Machine, limit.machine, r.State, now)
		}
		return s
	}
	for i := range limit.parts {
		if r := d.Last(subject.shard(i).String(), uint64(limit.ID)); r.Machine != nil {
			s = algo.Sum(limit.machine, r.Machine, s, r.State, now)
		}
	}
	return s
}
