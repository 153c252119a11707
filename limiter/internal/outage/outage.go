// Package outage is the layer that decides when the store fails (OnError). A limit that this process then counts by itself
// is exceeded at most by what the other processes admit.
package outage

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/fallback"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// Outage applies OnError to asks whose store failed. While the fallback holds counts of an outage, Outage also charges
// the fallback with what the layers below admit, and with the spares.
type Outage struct {
	Below chain.Layer
	*chain.Process
	Fallback *fallback.Counts
}

// Know implements chain.Layer. Counts of an outage can refuse. While the store fails, they refuse nothing, because only a
// store call can find the end of the outage.
func (o *Outage) Know(a *chain.Ask) (refuses bool) {
	if o.Below.Know(a) {
		return true
	}
	return o.Fallback.Holds(a.Now) && o.counted(a) && o.refuses(a)
}

// Take implements chain.Layer.
func (o *Outage) Take(a *chain.Ask) {
	if a.Err != nil { // a layer above knows that a call is useless
		a.Fail(a.Err)
		if a.Verdict == chain.Failed {
			o.fallBack(a)
		}
		return
	}
	if o.Fallback.Holds(a.Now) && o.counted(a) {
		if o.Below.Know(a) || o.refuses(a) {
			return
		}
		a.DropSpares() // the mirror could lack room for them
	}
	waited, settled := a.StoreTime, o.Health.Settled.Load()
	o.Below.Take(a)
	switch {
	case a.Verdict == chain.Failed:
		o.fallBack(a)
	// Another request can have begun to count the subject during the call.
	case a.Verdict == chain.Admitted && a.Err == nil && !a.Look && o.Fallback.Holds(a.Now) && o.counted(a):
		o.mirror(a, a.StoreTime-waited, settled)
	}
}

// counted reports whether the fallback may repeat charges of a, because it holds counts of the subject.
func (o *Outage) counted(a *chain.Ask) bool { return !a.Shadow && o.Fallback.HoldsSubject(a.Subject) }

// local are charges on the fallback, and the index of each in the ask.
type local struct {
	charges []domain.Charge
	results []algo.Result
	of      []int
}

func (l *local) add(i int, c domain.Charge) {
	l.charges, l.results, l.of = append(l.charges, c), append(l.results, algo.Result{}), append(l.of, i)
}

// repeated returns the charges of a with OnErrorLocal, for the fallback.
func repeated(a *chain.Ask) (l local) {
	for i := range a.Lines {
		if a.Lines[i].Limit.OnError == domain.OnErrorLocal {
			c := a.Charge(i)
			if a.Lines[i].Counter == nil {
				c.Cost = a.Charges[i].Cost // with its spare
			}
			l.add(i, c)
		}
	}
	return l
}

// refuses reports whether counts of an outage refuse a. If so, they are its results.
func (o *Outage) refuses(a *chain.Ask) bool {
	if o.Health.Failing() {
		return false
	}
	l, r := repeated(a), o.Fallback.At(a.Request)
	if len(l.of) == 0 || !o.Fallback.Look(r.Now, a.Subject, l.charges, l.results) {
		return false
	}
	for j, i := range l.of {
		if s := l.results[j]; s.Machine != nil && !a.Charges[i].Force && s.RetryAfter(r.Now, a.Lines[i].Want) > 0 {
			a.Request = r
			o.refuse(a, &l)
			a.Early = true
			return true
		}
	}
	return false
}

// refuse makes a report the counts of an outage, which are those of whole limits.
func (o *Outage) refuse(a *chain.Ask, l *local) {
	clear(a.Results)
	for i := range a.Lines {
		a.Lines[i].BackOff = 0
	}
	for j, i := range l.of {
		a.Results[i] = l.results[j]
		a.Charges[i].Subject, a.Charges[i].Limit = a.Subject, l.charges[j].Limit // a layer below can have chosen a shard
	}
	a.Verdict, a.Outage = chain.Refused, true
}

// mirror repeats the charges of a on the fallback. If it refuses, mirror takes the admission back. elapsed is the time since
// the call, and settled the number of settlements before it.
func (o *Outage) mirror(a *chain.Ask, elapsed time.Duration, settled int64) {
	l := repeated(a)
	if len(l.of) == 0 {
		return
	}
	stored := make([]algo.Result, len(l.of))
	for j, i := range l.of {
		if a.Lines[i].Counter == nil {
			stored[j] = a.Results[i]
		}
	}
	copy(l.results, stored)
	r := o.Fallback.At(a.Request)
	if !o.Fallback.Mirror(r.Now, a.Subject, l.charges, l.results) {
		o.takeBack(a, elapsed)
		a.Request = r
		o.refuse(a, &l)
		a.Early = false
		return
	}
	for j, i := range l.of {
		a.Lines[i].Mirrored = &l.results[j]
	}
	// If another request or a settlement was in progress since the call, the states can have a charge that is refunded now.
	if o.Health.Active.Load() == 1 && o.Health.Settled.Load() == settled {
		o.Fallback.Drop(a.Subject, l.charges, stored)
	}
}

// takeBack settles the charges of a below, and their spares.
func (o *Outage) takeBack(a *chain.Ask, elapsed time.Duration) {
	c := chain.Correction{Request: a.Request, Subject: a.Subject, Elapsed: elapsed}
	if a.Moved {
		c.Request = a.Again()
		defer c.End()
	}
	for i, charge := range a.Charges {
		if !charge.Force && charge.Cost > 0 {
			c.Parts = append(c.Parts, chain.Part{Line: a.Lines[i], Charge: charge, Result: a.Results[i]})
		}
	}
	o.Below.Settle(&c)
	a.Calls += c.Calls
	a.Refunds.Add(domain.Refunds{Given: c.Given, Dropped: c.Dropped + c.Lost})
}

// fallBack decides a, whose store failed.
func (o *Outage) fallBack(a *chain.Ask) {
	if a.Shadow || a.MayRepeat && errors.Is(a.Err, domain.ErrBreakerOpen) {
		return
	}
	if a.ApplyOnError() == domain.OnErrorLocal {
		o.takeLocally(a)
	}
}

// takeLocally charges the fallback instead of the store, which counts at least the usage that this process last saw in the
// store. The charges of a are then those on the fallback: each is on the limit and, if processes divide the limit, also on
// the share of this process. If the fallback has no room for the subject, or if a share can never admit the cost, a stays
// failed: the store can admit the request after the outage.
func (o *Outage) takeLocally(a *chain.Ask) {
	l := chain.Ask{Request: o.Fallback.At(a.Request), Subject: a.Subject}
	for i := range a.Lines {
		limit, c := a.Lines[i].Limit, a.Charge(i)
		if limit.OnError != domain.OnErrorLocal {
			continue
		}
		if a.Look {
			c.Cost = 0
		}
		line := chain.Line{Limit: limit, Want: a.Lines[i].Want, Local: true}
		if share := limit.LocalShare(); share != nil {
			if !c.Force && line.Want > share.Machine().Capacity() {
				return
			}
			c.Limit = share
			l.Add(line, c, algo.Result{})
			c.Limit = limit
		}
		l.Add(line, c, algo.Result{})
	}
	taken, err := o.Fallback.Take(l.Now, a.Subject, l.Charges, l.Results, func() { o.fillLast(&l) })
	if err != nil {
		a.Full = errors.Is(err, domain.ErrFull)
		return
	}
	l.Answer(taken, nil)
	a.Request = l.Request
	a.Lines, a.Charges, a.Results, a.Verdict = l.Lines, l.Charges, l.Results, l.Verdict
}

// fillLast fills the results of a with the states that this process last saw. Where a charges a share of a limit, it
// converts the state to the share. The caller holds the lock of the table.
func (o *Outage) fillLast(a *chain.Ask) {
	for i, c := range a.Charges {
		limit := a.Lines[i].Limit
		s := o.lastState(a.Now, a.Subject, limit)
		if c.Limit.IsLocalShare() {
			s = algo.Part(limit.Machine(), c.Limit.Machine(), int64(limit.LocalProcesses), s, a.Now)
		}
		a.Results[i] = algo.Result{Machine: c.Limit.Machine(), State: s}
	}
}

// lastState returns the state of a limit at the instant now, as far as this process knows it. It uses the state that this
// process last saw in the store, of any age, and the counter of this process. The caller holds the lock.
func (o *Outage) lastState(now algo.Instant, subject domain.Subject, limit *domain.Limit) algo.State {
	var s algo.State
	if last := o.Cache.Last(now, subject, limit); last.Machine != nil {
		s = quota.Convert(last.Machine, limit.Machine(), last.State, now)
	}
	if c := o.Trackers.Count(subject, limit.ID); c.Machine != nil { // the limit can have had a counter under older rules
		s = algo.Merge(limit.Machine(), s, quota.Convert(c.Machine, limit.Machine(), c.State, now))
	}
	return s
}

// Settle implements chain.Layer. It makes the corrections of charges on the fallback, and repeats the others there. If the
// store failed, it may never count a forced charge, so this process counts the charge by itself. It does not refund in its
// own counts then, because the store can still count the charge.
func (o *Outage) Settle(c *chain.Correction) {
	open := make([]bool, len(c.Parts))
	for i := range c.Parts {
		p := &c.Parts[i]
		switch {
		case p.Local && !p.Done:
			o.settleLocal(c, p)
		case !p.Done:
			open[i] = true
			o.release(c, p)
		}
	}
	o.Below.Settle(c)
	for i := range c.Parts {
		if open[i] {
			o.repeat(c, &c.Parts[i])
		}
	}
}

// settleLocal makes the correction of a charge on the fallback.
func (o *Outage) settleLocal(c *chain.Correction, p *chain.Part) {
	excess, given := o.Fallback.Settle(c.Now, p.Charge, p.Result, c.Elapsed, func() (algo.Result, bool) {
		return o.Cache.Last(c.Now, c.Subject, p.Charge.Limit), false
	})
	p.Done = true
	switch {
	case p.Charge.Limit.IsLocalShare(): // the next part is the same charge on the whole limit
		c.OfShare = excess
	case p.Charge.Force:
		c.Force(p.Limit, max(excess, c.OfShare))
		c.OfShare = 0
	case given:
		c.Given++
	default:
		c.Dropped++
	}
}

// release releases slots in the counts of an outage. Without it, this process would count ended requests in an outage.
func (o *Outage) release(c *chain.Correction, p *chain.Part) {
	if !algo.TakesSlots(p.Result.Machine) || p.Charge.Force || !o.Fallback.Holds(c.Now) {
		return
	}
	charge := p.Charge
	o.Fallback.Settle(c.Now, charge, p.Result, 0, nil)
	if share := p.Limit.LocalShare(); share != nil { // the share started with a part of the slots
		charge.Limit = share
		o.Fallback.Settle(c.Now, charge, p.Result, 0, nil)
	}
}

// repeat repeats a correction in the counts of an outage, after the layers below have made it or have lost it.
func (o *Outage) repeat(c *chain.Correction, p *chain.Part) {
	whole := domain.Charge{Subject: c.Subject, Limit: p.Limit, Cost: p.Charge.Cost, Force: p.Charge.Force}
	switch lost := c.Err != nil && !p.Done; {
	case whole.Force && p.Counter != nil: // a counter takes no charge
	case whole.Force:
		var seen func() (algo.Result, bool)
		if lost && p.Limit.OnError == domain.OnErrorLocal && !p.Limit.Shadow {
			seen = func() (algo.Result, bool) { // the denial cache has the charge already
				last := o.Cache.Last(c.Now, c.Subject, p.Limit)
				return last, last.Machine != nil
			}
		}
		o.Fallback.Settle(c.Now, whole, algo.Result{}, 0, seen)
	case p.Mirrored == nil || p.Mirrored.Machine == nil, algo.TakesSlots(p.Result.Machine), lost, p.Counter != nil && !p.Returned:
	default:
		o.Fallback.Settle(c.Now, whole, *p.Mirrored, c.Elapsed, nil)
	}
}
