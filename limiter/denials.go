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

// recall fills the results and back-offs of p with what the cache knows. It reports whether the
// cache denies p.
func (d denials) recall(now algo.Instant, p *part) (denies bool) {
	var room [MaxCharges]local.Charge
	var holds [MaxCharges]time.Duration
	n := len(p.charges)
	denies = d.Recall(now, p.charges[0].Subject.name, keys(room[:0], p.charges), p.results, holds[:n])
	for i := range p.items {
		p.items[i].hold = holds[i]
	}
	return denies
}

// last returns the state of an item that was seen last, of any age, as its limit counts it at now.
// For a limit with shards that is the sum of all.
func (d denials) last(now algo.Instant, it *item) (s algo.State) {
	if it.limit.Spread.Shards == 0 {
		if r := d.Last(it.Subject.name, uint64(it.limit.ID)); r.Machine != nil {
			s = local.Convert(r.Machine, it.limit.machine, r.State, now)
		}
		return s
	}
	for i := range it.limit.parts {
		if r := d.Last(it.Subject.shard(i).name, uint64(it.limit.ID)); r.Machine != nil {
			s = algo.Sum(it.limit.machine, r.Machine, s, r.State, now)
		}
	}
	return s
}
