package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// lookUp looks every batch up in the denial cache, and then in the fallback's counts of an outage. It
// bounds new leases by the room of the known state.
func (r *request) lookUp() {
	l := r.limiter
	if !l.sharesStore() {
		return
	}
	pressure := !r.look && l.trackers.anyPressure(r.now)
	for i := range r.batches {
		b := &r.batches[i]
		if pressure && r.paused(b) {
			b.err = errPaused
			if !b.shadow() {
				r.leaveOutMarksOf(i)
			}
			continue
		}
		r.lookUpBatch(b)
		for b.refused && !b.shadow() && !r.shared && r.leaveOutMarksOf(i) { // a shared limit can get share first
			b = &r.batches[i]
			if !b.skipped {
				r.lookUpBatch(b)
			}
		}
		// Only the back-off of a shadow limit refuses. The limit itself may have room, so it is unknown whether it
		// refuses.
		if b.refused && b.shadow() && !b.exhausted(r.now) {
			b.refused, b.skipped = false, true
		}
		if len(r.renewals) > 0 {
			b.sizeLeases(r.now)
		}
	}
	if l.fallback.Holds(r.now) && !r.refused() {
		r.lookUpOutage()
	}
}

func (r *request) lookUpBatch(b *batch) {
	if b.tasks[0].sharded {
		b.refused = r.pickShard(b)
	} else {
		b.refused = r.limiter.denials.lookup(r.now, b)
	}
}

// paused reports whether b makes no call, because the item of its subject is busy. Looks, charges of cost 0 and forced
// charges always make a call.
func (r *request) paused(b *batch) bool {
	ts := r.limiter.trackers
	return slices.ContainsFunc(b.tasks, func(stored task) bool {
		return stored.Cost > 0 && !stored.Force && ts.paused(r.now, stored.Subject, stored.original)
	})
}

// pickShard makes b charge a random shard. It skips shards that the denial cache denies, and the shard
// that has just refused. If no shard is left, pickShard returns true, and b reports the shard with the
// shortest wait.
func (r *request) pickShard(b *batch) (refused bool) {
	shards := b.tasks[0].original.parts
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
	task, c := &b.tasks[0], &b.charges[0]
	c.Subject, c.Limit = task.Subject.shard(shard), task.original.parts[shard]
	task.Limit, b.results[0] = c.Limit, algo.Result{}
	return r.limiter.denials.lookup(r.now, b)
}

// refusal is the refusal of a shard. The zero value means no refusal.
type refusal struct {
	limit   *Limit
	result  algo.Result
	backOff time.Duration
}

func (b *batch) shardRefusal() refusal {
	return refusal{b.charges[0].Limit, b.results[0], b.tasks[0].backOff}
}

// answer makes b report the refusal of a shard.
func (b *batch) answer(by refusal) {
	b.charges[0].Limit, b.tasks[0].Limit, b.results[0], b.tasks[0].backOff = by.limit, by.limit, by.result, by.backOff
}

// shorter returns the refusal with the shorter wait: f, or that of the shard that b charges.
func (f refusal) shorter(now algo.Instant, b *batch) refusal {
	other := b.shardRefusal()
	if f.result.Machine == nil || other.wait(now, b.tasks[0].want) < f.wait(now, b.tasks[0].want) {
		return other
	}
	return f
}

// wait returns the shortest time until the shard can admit the cost.
func (f refusal) wait(now algo.Instant, cost int64) time.Duration {
	return max(f.backOff, f.result.RetryAfter(now, cost))
}
