package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// denials is the denial cache, for charges of this package.
type denials struct{ *local.Denials }

// key returns what package local knows of l.
func (l *Limit) key() local.Limit {
	return local.Limit{ID: uint64(l.ID), Machine: l.machine, Share: l.isShare}
}

// keys appends what package local knows of charges.
func keys(to []local.Charge, charges []Charge) []local.Charge {
	for _, c := range charges {
		to = append(to, local.Charge{Limit: c.Limit.key(), Cost: c.Cost, Force: c.Force})
	}
	return to
}

// remember caches the states that the store returned for charges on subject.
func (d denials) remember(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, taken bool) {
	var room [MaxCharges]local.Charge
	d.Remember(now, subject.name, keys(room[:0], charges), results, taken)
}

// recall fills results and holds with the states and back-offs that the cache knows, and reports
// whether the cache denies.
func (d denials) recall(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, holds []time.Duration) (denies bool) {
	var room [MaxCharges]local.Charge
	return d.Recall(now, subject.name, keys(room[:0], charges), results, holds)
}

// last returns the state of limit that was seen last, of any age, as limit counts it at now. For a
// limit with shards that is the sum of all.
func (d denials) last(now algo.Instant, subject Subject, limit *Limit) (s algo.State) {
	if limit.Spread.Shards == 0 {
		if r := d.Last(subject.name, uint64(limit.ID)); r.Machine != nil {
			s = local.Convert(r.Machine, limit.machine, r.State, now)
		}
		return s
	}
	for i := range limit.parts {
		if r := d.Last(subject.shard(i).name, uint64(limit.ID)); r.Machine != nil {
			s = algo.Sum(limit.machine, r.Machine, s, r.State, now)
		}
	}
	return s
}
