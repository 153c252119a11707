package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// take charges one part. Of a limit with shards it charges a second shard if the first one refuses.
func (r *request) take(ctx context.Context, p *part) {
	r.takeOnce(ctx, p)
	if !p.refused || !p.remote || !p.items[0].sharded {
		return
	}
	first := p.shardRefusal()
	if r.pickShard(p) {
		return
	}
	if r.takeOnce(ctx, p); p.taken || r.look && !p.refused && p.err == nil {
		return
	}
	p.refused = true // by the first, even if the second failed
	if p.err == nil {
		first = first.shorter(r.now, p)
	}
	for shard := range p.items[0].limit.parts { // the cache may know shards with a shorter wait
		if r.recallShard(p, shard) {
			first = first.shorter(r.now, p)
		}
	}
	p.answer(first)
}

// pickShard chooses a shard at random: one that the denial cache does not deny, and not the one
// that has just refused. If there is none it reports true, and the shard with the shortest wait is
// the answer.
func (r *request) pickShard(p *part) (refused bool) {
	shards := p.items[0].limit.parts
	tried, answer := p.charges[0].Limit, p.shardRefusal()
	first := r.limiter.intN(len(shards))
	for i := range shards {
		shard := (first + i) % len(shards)
		if shards[shard] == tried {
			continue
		}
		if !r.recallShard(p, shard) {
			return false
		}
		answer = answer.shorter(r.now, p)
	}
	p.answer(answer)
	return true
}

// recallShard makes p charge a shard, with what the denial cache knows of it. It reports whether
// the cache denies.
func (r *request) recallShard(p *part, shard int) (refuses bool) {
	it, c := &p.items[0], &p.charges[0]
	c.Subject, c.Limit = it.Subject.shard(shard), it.limit.parts[shard]
	it.Limit, p.results[0] = c.Limit, algo.Result{}
	return p.recall(r.now, r.limiter.denials)
}

// refusal is the refusal of a shard. The zero value is none.
type refusal struct {
	limit  *Limit
	result algo.Result
	hold   time.Duration
}

// shardRefusal returns the refusal of the shard that p charges.
func (p *part) shardRefusal() refusal {
	return refusal{p.charges[0].Limit, p.results[0], p.items[0].hold}
}

// answer makes a refusal the answer of p.
func (p *part) answer(by refusal) {
	p.charges[0].Limit, p.items[0].Limit, p.results[0], p.items[0].hold = by.limit, by.limit, by.result, by.hold
}

// shorter returns f, or the refusal of the shard that p charges if f is none or has a longer wait.
func (f refusal) shorter(now algo.Instant, p *part) refusal {
	other := p.shardRefusal()
	if f.result.Machine == nil || other.wait(now, p.items[0].want) < f.wait(now, p.items[0].want) {
		return other
	}
	return f
}

// wait returns how long until the shard may admit cost.
func (f refusal) wait(now algo.Instant, cost int64) time.Duration {
	return max(f.hold, f.result.RetryAfter(now, cost))
}
