package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// sizes, in bytes, of the parts of the scripts' arguments, without the parameters of limits
const (
	takeHeader   = 8
	takeCharge   = 7*4 + 1 + versionSize + limitSize
	settleCharge = 7*4 + 1 + limitSize
	fewBytes     = 4 // allocated for the parameters of a limit; enough for most limits
)

// encodeTake returns the first argument of take.lua. The charges must not be hopeless. seen contains the last known
// result of each limit. A result can have other parameters than the charge. If they belong to the same or a newer
// version of the rules, the script decides by the parameters of the result.
func encodeTake(now algo.Instant, charges []limiter.Charge, seen []algo.Result) []byte {
	b := appendInteger(make([]byte, 0, takeHeader+len(charges)*(takeCharge+fewBytes)), int64(now), 8)
	for i, c := range charges {
		m, superseded := c.Limit.Machine(), byte(0)
		if held := seen[i].Machine; held != nil && held != m && !tooMuch(c, held) && held.Fingerprint() != c.Limit.Fingerprint() {
			m, superseded = held, 1
		}
		b = layoutOf(m).take(b, m, now, c)
		b = appendInteger(append(b, superseded), c.Limit.Version, versionSize)
		b = appendLimit(b, c.Limit.ID, m)
	}
	return b
}

func encodeSettle(now algo.Instant, charges []limiter.Charge, results []algo.Result, late time.Duration) []byte {
	b := make([]byte, 0, len(charges)*(settleCharge+fewBytes))
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		m, force := results[i].Machine, byte(0)
		if c.Force {
			m, force = c.Limit.Machine(), 1
			b = layoutOf(m).force(b, m, now, c)
		} else {
			b = layoutOf(m).refund(b, m, results[i].State, c.Cost, late)
		}
		b = appendLimit(append(b, force), c.Limit.ID, m)
	}
	return b
}
