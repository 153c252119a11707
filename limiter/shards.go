package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// take charges one batch. If the first shard of a limit refuses, take charges a second one.
func (r *request) take(ctx context.Context, b *batch) {
	r.takeOnce(ctx, b)
	if !b.refused || !b.remote || !b.items[0].sharded {
		return
	}
	first := b.shardRefusal()
	if r.pickShard(b) {
		return
	}
	if r.takeOnce(ctx, b); b.taken || r.look && !b.refused && b.err == nil {
		return
	}
	b.refused = true // the refusal of the first shard counts, even if the call for the second one failed
	if b.err == nil {
		first = first.shorter(r.now, b)
	}
	for shard := range b.items[0].limit.parts { // the denial cache possibly has a shard with a shorter wait
		if r.lookUpShard(b, shard) {
			first = first.shorter(r.now, b)
		}
	}
	b.answer(first)
}

// pickShard makes b charge a random shard. It skips shards that the denial cache denies, and the shard
// that has just refused. If no shard is left, pickShard returns true, and b reports the shard with the
// shortest wait.
func (r *request) pickShard(b *batch) (refused bool) {
	shards := b.items[0].limit.parts
	tried, answer := b.charges[0].Limit, b.shardRefusal()
	first := r.limiter.intN(len(shards))
	for i := range shards {
		shard := (first + i) % len(shards)
		if shards[shard] == tried {
			continue
		}
		if !r.lookUpShard(b, shard) {
			return false
		}
		answer = answer.shorter(r.now, b)
	}
	b.answer(answer)
	return true
}

// lookUpShard makes b charge a shard, and looks the shard up in the denial cache. It reports whether the
// cache denies.
func (r *request) lookUpShard(b *batch, shard int) (refuses bool) {
	it, c := &b.items[0], &b.charges[0]
	c.Subject, c.Limit = it.Subject.shard(shard), it.limit.parts[shard]
	it.Limit, b.results[0] = c.Limit, algo.Result{}
	return b.lookUp(r.now, r.limiter.denials)
}

// refusal is the refusal of a shard. The zero value means no refusal.
type refusal struct {
	limit   *Limit
	result  algo.Result
	backOff time.Duration
}

// shardRefusal returns the refusal of the shard that b charges.
func (b *batch) shardRefusal() refusal {
	return refusal{b.charges[0].Limit, b.results[0], b.items[0].backOff}
}

// answer makes b report a refusal.
func (b *batch) answer(by refusal) {
	b.charges[0].Limit, b.items[0].Limit, b.results[0], b.items[0].backOff = by.limit, by.limit, by.result, by.backOff
}

// shorter returns the refusal with the shorter wait: f, or the refusal of the shard that b charges.
func (f refusal) shorter(now algo.Instant, b *batch) refusal {
	other := b.shardRefusal()
	if f.result.Machine == nil || other.wait(now, b.items[0].want) < f.wait(now, b.items[0].want) {
		return other
	}
	return f
}

// wait returns the shortest time until the shard can admit cost.
func (f refusal) wait(now algo.Instant, cost int64) time.Duration {
	return max(f.backOff, f.result.RetryAfter(now, cost))
}
