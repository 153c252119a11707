package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The sizes of the scripts' arguments, in bytes.
const (
	takeHeader   = 9
	takeCharge   = limitSize + 6 + 1 + 3*9
	refundCharge = limitSize + 1 + 9 + 4 + 2*9
)

// encodeTake returns the first argument of take.lua. No charge costs more than its
// limit's capacity.
func encodeTake(now algo.Instant, charges []limiter.Charge) []byte {
	b := appendInstant(make([]byte, 0, takeHeader+len(charges)*takeCharge), now)
	for _, c := range charges {
		m := c.Limit.Machine()
		b = appendLimit(b, c.Limit.ID, m)
		b = appendInteger(b, c.Limit.Version, 6)
		b = append(b, kindOf(m))
		switch m := m.(type) {
		case *algo.Bucket:
			b = appendInstant(b, m.Latest(now, c.Cost))
			b = appendInstant(b, m.Increment(c.Cost))
			b = appendInstant(b, m.Spoiled(now))
		case *algo.Window:
			index := m.Index(now)
			b = appendInteger(b, index, 5)
			b = appendInteger(b, c.Cost, 4)
			b = appendInteger(b, m.Spoiled(now), 5)
			b = appendInteger(b, m.Weight(index, now), 4)
			b = appendInteger(b, m.Requests-c.Cost, 5)
			b = appendInteger(b, 0, 4)
		}
	}
	return b
}

// encodeRefund returns the argument of refund.lua.
func encodeRefund(charges []limiter.Charge, results []limiter.Result, late time.Duration) []byte {
	b := make([]byte, 0, len(charges)*refundCharge)
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		m, charged := results[i].Machine, results[i].State
		b = append(appendLimit(b, c.Limit.ID, m), kindOf(m))
		switch m := m.(type) {
		case *algo.Bucket:
			b = appendInstant(b, charged.TAT)
			b = appendInteger(b, charged.Refunds, 4)
			b = appendInstant(b, m.Increment(c.Cost))
			b = appendInstant(b, m.Withheld(c.Cost, late))
		case *algo.Window:
			b = appendInteger(b, charged.Window, 5)
			b = appendInteger(b, c.Cost, 4)
			b = append(b, make([]byte, 4+2*9)...)
		}
	}
	return b
}
