package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// sizes, in bytes, of the parts of the scripts' arguments, without the parameters of limits
const (
	takeHeader   = 8
	takeCharge   = 6*4 + 1 + versionSize + limitSize
	settleCharge = 7*4 + 1 + limitSize
	parameters   = 4 // allocated for the parameters of a limit; enough for most limits
)

// encodeTake returns the first argument of take.lua. The charges must not be hopeless. seen contains the last
// known result of each limit. If the parameters of a result differ from those of the charge, and belong to the
// same or a newer version of the rules, the script decides by the parameters of the result.
func encodeTake(now algo.Instant, charges []limiter.Charge, seen []algo.Result) []byte {
	b := appendInteger(make([]byte, 0, takeHeader+len(charges)*(takeCharge+parameters)), int64(now), 8)
	for i, c := range charges {
		m, superseded := c.Limit.Machine(), byte(0)
		if held := seen[i].Machine; held != nil && held != m && !tooMuch(c, held) && held.Fingerprint() != c.Limit.Fingerprint() {
			m, superseded = held, 1
		}
		switch m := m.(type) {
		case *algo.Bucket:
			latest := m.Latest(now, c.Cost)
			if c.Force {
				latest = m.MaxDebt(now).Add(-m.Increment(c.Cost))
			}
			b = appendIntegers(b, 8, int64(latest), int64(m.Increment(c.Cost)), 0)
		case *algo.Window:
			index := m.Index(now)
			weight, room := m.Weight(index, now), m.Requests-c.Cost
			if c.Force {
				weight, room = 0, m.MaxDebt()-c.Cost
			}
			b = appendIntegers(b, 4, index, c.Cost, m.MaxHonest(now), weight, room, 0)
		case *algo.Log:
			room := m.Requests - c.Cost
			if c.Force {
				room = m.MaxDebt() - c.Cost
			}
			b = appendInteger(b, int64(m.Length), 8)
			b = appendIntegers(b, 4, room, c.Cost)
			b = appendInteger(b, int64(m.MaxHonest(now)), 8)
		case *algo.Slots:
			room := m.Requests - c.Cost
			if c.Force {
				room = m.MaxDebt() - c.Cost
			}
			b = appendInteger(b, int64(now.Sub(algo.LastSlot(now.Add(-m.Length)))), 8)
			b = appendIntegers(b, 4, room, c.Cost)
			b = appendInteger(b, int64(algo.LastSlot(now.Add(algo.MaxSkew))), 8)
		}
		b = appendInteger(append(b, superseded), c.Limit.Version, versionSize)
		b = appendLimit(b, c.Limit.ID, m)
	}
	return b
}

func encodeSettle(now algo.Instant, charges []limiter.Charge, results []algo.Result, late time.Duration) []byte {
	b := make([]byte, 0, len(charges)*(settleCharge+parameters))
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		m, charged := results[i].Machine, results[i].State
		if c.Force {
			b = appendLimit(append(encodeForce(b, now, c), 1), c.Limit.ID, c.Limit.Machine())
			continue
		}
		switch m := m.(type) {
		case *algo.Bucket:
			b = appendInteger(b, int64(charged.TAT), 8)
			b = appendInteger(b, charged.Refunds, 4)
			b = appendIntegers(b, 8, int64(m.Increment(c.Cost)), int64(m.Refundable(c.Cost, late)))
		case *algo.Window:
			b = appendIntegers(b, 4, charged.Window, c.Cost, 0, 0, 0, 0, 0)
		case *algo.Log, *algo.Slots:
			b = appendInteger(b, int64(charged.Newest), 8)
			b = appendIntegers(b, 4, c.Cost, 0, 0, 0, 0)
		}
		b = appendLimit(append(b, 0), c.Limit.ID, m)
	}
	return b
}

// encodeForce appends the 28 bytes of a charge with Force. A window has seven numbers of 4 bytes. A bucket
// has three numbers of 8 bytes, then a zero.
func encodeForce(b []byte, now algo.Instant, c limiter.Charge) []byte {
	switch m := c.Limit.Machine().(type) {
	case *algo.Bucket:
		b = appendIntegers(b, 8, int64(now), int64(m.Increment(c.Cost)), int64(m.MaxDebt(now)))
		return appendInteger(b, 0, 4)
	case *algo.Window:
		return appendIntegers(b, 4, m.Index(now), c.Cost, m.MaxHonest(now), m.MaxDebt(), 0, 0, 0)
	}
	return appendIntegers(b, 4, 0, 0, 0, 0, 0, 0, 0)
}
