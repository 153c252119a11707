package limiter

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
)

// known asks what this process knows without a call of the store. It reports whether it denies the request.
func (c *combiner) known() (denies bool) {
	if !c.limiter.remote {
		return false
	}
	i := 0
	for i < len(c.asks) { // also asks that the loop appends
		a := &c.asks[i]
		for !a.over && a.layer.Know(&a.Ask) && !a.Shadow && c.leaveOut(i) {
			a = &c.asks[i]
		}
		i++
	}
	return c.any((*ask).refuses)
}

// take takes the asks that have no answer yet.
func (c *combiner) take() {
	if c.began.IsZero() {
		c.began = time.Now() // a refund needs the monotonic clock reading
	}
	if c.limiter.remote {
		c.takeInWaves()
		return
	}
	for i := range c.asks {
		a := &c.asks[i]
		if a.Verdict == chain.Unanswered {
			a.layer.Take(&a.Ask)
			a.fallBack()
		}
		if a.refuses() {
			return
		}
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

// takeInWaves takes the asks of a remote store, those of one wave at the same time. A subject whose charge cannot be
// refunded waits until the other subjects have admitted the request. Otherwise a flood of refused requests would drain a
// fast bucket that many callers share.
//
// A request on such a bucket takes two round trips, rarely three, but no more calls. It takes one round trip if this
// process knows that the other limits have room.
func (c *combiner) takeInWaves() {
	for w := ownWave; w <= globalWave && !c.any((*ask).refuses); w++ {
		for w > ownWave && w < globalWave && (c.Look || c.hasRoom(w)) {
			w++
		}
		c.run(func(a *ask) bool { return a.Verdict == chain.Unanswered && a.wave() <= w })
		c.probe()
	}
}

// hasRoom reports whether the limits of the waves up to w had at least an eighth of their capacity left when this process
// last saw their states.
func (c *combiner) hasRoom(w wave) bool {
	for i := range c.asks {
		a := &c.asks[i]
		if a.Verdict != chain.Unanswered || a.wave() > w {
			continue
		}
		for j := range a.Lines {
			m := a.Results[j].Machine
			if m == nil || separate(a.Lines[j].Limit) || 8*m.Remaining(a.Results[j].State, c.Now) < max(m.Capacity(), 8*a.Lines[j].Want) {
				return false
			}
		}
	}
	return true
}

// run takes the asks that the function includes selects, at the same time.
func (c *combiner) run(includes func(*ask) bool) {
	var last *ask
	for i := range c.asks {
		if a := &c.asks[i]; includes(a) {
			a.MayRepeat = !a.again
			last = a
			c.calls.Add(func() { a.layer.Take(&a.Ask) })
		}
	}
	if last == nil {
		return
	}
	c.renew()
	c.Deadline() // before asks run at the same time
	c.calls.Run(c.limiter.clock)
	var longest time.Duration
	for i := range c.asks {
		longest, c.asks[i].StoreTime = max(longest, c.asks[i].StoreTime), 0
	}
	c.storeTime += longest
}

// renew lets the calls that follow have a deadline of their own, if asks have waited for share of other regions.
func (c *combiner) renew() {
	for i := range c.asks {
		if c.asks[i].Moved {
			c.asks[i].Moved = false
			c.Restart()
		}
	}
}

// probe takes the asks again that a breaker rejected, if another ask of the request has shown that the store works
// again. After an outage, the breaker permits only one call of a request. Without probe, OnError would decide the
// request. If the store does not work, OnError decides.
func (c *combiner) probe() {
	works := c.any(func(a *ask) bool { return a.Calls > 0 && Answered(a.Err) })
	for i := range c.asks {
		a := &c.asks[i]
		if a.Verdict != chain.Failed || !a.MayRepeat || a.Shadow || !errors.Is(a.Err, ErrBreakerOpen) {
			continue
		}
		next := c.retry(a, func(int) bool { return true })
		next.again = true
		if !works {
			next.Err = a.Err
		}
		*a = next
	}
	if !c.any((*ask).refuses) {
		c.run(func(a *ask) bool { return a.again && a.Verdict == chain.Unanswered })
	}
}
