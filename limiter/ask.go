package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
)

// ask is what the request wants of one subject. The layers of its limits answer it.
type ask struct {
	chain.Ask
	layer chain.Layer
	over  bool // the limits are charged nothing, because they have Mark and refuse
	again bool // a breaker has rejected the ask, which is taken again
}

// separate reports whether the limit has an ask of its own.
func separate(limit *Limit) bool { return limit.Spread.Shards > 0 }

// refuses reports whether a denies the request.
func (a *ask) refuses() bool {
	return !a.over && !a.Shadow && (a.Verdict == chain.Refused || a.Verdict == chain.Busy)
}

// fails reports whether a denies the request because its store failed.
func (a *ask) fails() bool { return !a.over && !a.Shadow && a.Verdict == chain.Failed }

// fallBack applies OnError to an ask whose store of this process failed, because it is full.
func (a *ask) fallBack() {
	if a.Verdict != chain.Failed || a.Shadow {
		return
	}
	strictest := OnErrorAllow
	for i := range a.Lines {
		strictest = max(strictest, a.Lines[i].Limit.OnError)
	}
	a.Full = strictest == OnErrorLocal
	if strictest == OnErrorAllow {
		a.Verdict = chain.Admitted
		a.Lines, a.Charges, a.Results = nil, nil, nil
	}
}

// wave is the order in which a request charges its subjects.
type wave int

const (
	ownWave        wave = iota // the ask can be refused without a charge, but not known to be
	refundableWave             // the charge can be refunded
	callerWave                 // the charge cannot be refunded; the limit counts one caller
	globalWave                 // the charge cannot be refunded; the limit counts all callers
)

// If other requests have used a bucket since the charge, a store does not refund what leaks in refundMargin. If the
// whole charge leaks in that time, it cannot be refunded.
const refundMargin = 2 * time.Second

func (a *ask) wave() wave {
	w := refundableWave
	if a.NeedsShare {
		return ownWave
	}
	for i := range a.Lines {
		limit := a.Lines[i].Limit
		if limit.Spread.Sync > 0 {
			return ownWave
		}
		switch leak := algo.Leak(limit.Machine(), a.Charges[i].Cost); {
		case leak == algo.Never || a.Charges[i].Force || limit.Spread.Lease > 1 || leak > refundMargin:
		case limit.Global:
			return globalWave
		default:
			w = callerWave
		}
	}
	return w
}
