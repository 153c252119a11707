package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// bucketLayout is the layout of a bucket: its TAT, and the number of refunds.
type bucketLayout struct{}

func (bucketLayout) kind() byte { return kindBucket }

const bucketSize = 8 + 4

func (bucketLayout) read(state string) algo.State {
	return algo.State{TAT: algo.Instant(integer(state[:8])), Refunds: integer(state[8:])}
}

func (bucketLayout) write(b []byte, s algo.State) []byte {
	return appendInteger(appendInteger(b, int64(s.TAT), 8), s.Refunds, 4)
}

func (bucketLayout) take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	bucket := m.(*algo.Bucket)
	latest := bucket.Latest(now, c.Cost)
	if c.Force {
		latest = bucket.MaxDebt(now).Add(-bucket.Increment(c.Cost))
	}
	return appendInteger(appendIntegers(b, 8, int64(latest), int64(bucket.Increment(c.Cost)), 0), 0, 4)
}

func (bucketLayout) force(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	bucket := m.(*algo.Bucket)
	b = appendIntegers(b, 8, int64(now), int64(bucket.Increment(c.Cost)), int64(bucket.MaxDebt(now)))
	return appendInteger(b, 0, 4)
}

func (bucketLayout) refund(b []byte, m algo.Machine, charged algo.State, cost int64, late time.Duration) []byte {
	bucket := m.(*algo.Bucket)
	b = appendInteger(appendInteger(b, int64(charged.TAT), 8), charged.Refunds, 4)
	return appendIntegers(b, 8, int64(bucket.Increment(cost)), int64(bucket.Refundable(cost, late)))
}
