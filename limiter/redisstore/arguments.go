package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// takeHeader and takeCharge are the sizes, in bytes, of the parts of the argument of take.lua, without the parameters.
const (
	takeHeader = 8 + ttlSize
	takeCharge = 7*4 + 1 + 1 + versionSize + 1 + idSize
)

// encodeTake returns the argument of take.lua. The charges must not be hopeless. seen contains the last known
// result of each limit. A result can have other parameters than the charge. If they belong to the same or a newer
// version of the rules, the script decides by the parameters of the result.
func encodeTake(now algo.Instant, charges []limiter.Charge, seen []algo.Result) []byte {
	size := takeHeader
	for _, c := range charges {
		size += takeCharge + len(c.Limit.Fingerprint())
	}
	b := appendInteger(appendInteger(make([]byte, 0, size), int64(now), 8), lifetime(charges, seen), ttlSize)
	for i, c := range charges {
		m, fingerprint, superseded := c.Limit.Machine(), c.Limit.Fingerprint(), byte(0)
		if held := c.Limit.View(seen[i]).Machine; held != nil && held != m && !tooMuch(c, held) && held.Fingerprint() != fingerprint {
			m, fingerprint, superseded = held, held.Fingerprint(), 1
		}
		l := layoutOf(m)
		b = append(l.take(b, m, now, c), superseded, l.kind())
		b = appendLimit(appendInteger(b, c.Limit.Version, versionSize), c.Limit.ID, fingerprint)
	}
	return b
}

// encodeSettle returns the argument of settle.lua.
func encodeSettle(now algo.Instant, charges []limiter.Charge, results []algo.Result, late time.Duration) []byte {
	b := appendInteger(nil, lifetime(charges, nil), ttlSize)
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		m := results[i].Machine
		if c.Force {
			m = c.Limit.Machine()
			b = append(layoutOf(m).force(b, m, now, c), 1)
		} else {
			b = append(layoutOf(m).refund(b, m, results[i].State, c.Cost, late), 0)
		}
		b = appendLimit(append(b, layoutOf(m).kind()), c.Limit.ID, m.Fingerprint())
	}
	return b
}
