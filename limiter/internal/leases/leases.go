// Package leases is the layer of quota that a process takes in advance: for limits with Spread.Lease, and for other limits
// whose item is busy. A lease is a spare that the layers below have charged.
package leases

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/quota"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Leases serves requests from leases, and pauses the calls on busy subjects.
type Leases struct {
	Below chain.Layer
	*chain.Process
}

// rounds is the number of times that a request waits for another request that renews its lease. After that, it calls the
// store itself.
const rounds = 4

// Know implements chain.Layer. It knows that a subject is paused. Nothing below can refuse a charge for which a lease has room,
// so the layers below are asked about the other charges only.
func (l *Leases) Know(a *chain.Ask) (refuses bool) {
	if !l.applies(a) {
		return l.Below.Know(a)
	}
	served, n := l.served(a)
	below := a
	if n == len(a.Lines) {
		return false
	}
	if n > 0 {
		below = a.Split(func(i int) bool { return !served[i] })
		defer a.Merge(below)
	}
	if l.paused(below) {
		below.Early = true
		below.Fail(domain.ErrPaused)
		return true
	}
	return l.Below.Know(below)
}

// applies reports whether leases can serve a.
func (l *Leases) applies(a *chain.Ask) bool {
	if a.Look {
		return false
	}
	for i := range a.Lines {
		if a.Lines[i].Limit.Spread.Lease > 1 {
			return true
		}
	}
	return l.Trackers.AnyPressure(a.Now)
}

// served returns the charges for which leases have room, and how many these are.
func (l *Leases) served(a *chain.Ask) (served [domain.MaxCharges]bool, n int) {
	l.Trackers.Lock()
	defer l.Trackers.Unlock()
	for i := range a.Lines {
		if t := l.tracker(a, i); t != nil && t.Lease.Left(a.Now) >= a.Lines[i].Want {
			served[i] = true
			n++
		}
	}
	return served, n
}

// tracker returns the tracker whose lease can serve charge i; nil if none can. The caller holds the lock.
func (l *Leases) tracker(a *chain.Ask, i int) *table.Tracker {
	limit := a.Lines[i].Limit
	switch {
	case a.Lines[i].Want == 0 || a.Charges[i].Force:
		return nil
	case limit.Spread.Lease > 1:
		return l.Trackers.Get(a.Now, a.Subject, limit)
	case table.Leasable(limit) && l.Trackers.AnyPressure(a.Now):
		return l.Trackers.Pressed(a.Now, a.Subject, limit)
	}
	return nil
}

// paused reports whether a makes no call, because the item of its subject is busy. Charges of cost 0 and forced charges
// always make a call.
func (l *Leases) paused(a *chain.Ask) bool {
	if !l.Trackers.AnyPressure(a.Now) {
		return false
	}
	for i := range a.Lines {
		if a.Lines[i].Lease == nil && a.Charges[i].Cost > 0 && !a.Charges[i].Force && l.Trackers.Paused(a.Now, a.Subject, a.Lines[i].Limit) {
			return true
		}
	}
	return false
}

// Take implements chain.Layer.
func (l *Leases) Take(a *chain.Ask) {
	if !l.applies(a) || a.Err != nil {
		l.Below.Take(a)
		if a.Verdict == chain.Admitted && a.Err == nil && a.Spared() {
			l.keep(a)
		}
		return
	}
	s := serving{Leases: l, Ask: a}
	served := s.serve()
	if served == len(a.Lines) {
		a.Verdict = chain.Admitted
		return
	}
	s.takeRest(served)
}

// serving is the attempt to serve one ask by leases.
type serving struct {
	*Leases
	*chain.Ask
	renews    [domain.MaxCharges]*table.Tracker // the trackers whose leases the ask renews
	waitedFor *table.Tracker                    // the tracker whose renewal the request waited for
}

// serve charges leases, and returns how many charges they made. The others get a spare if they renew a lease.
func (s *serving) serve() (served int) {
	for waits := 0; ; waits++ {
		served, wait := s.try(waits < rounds)
		if wait == nil {
			return served
		}
		if !s.await(wait) {
			waits = rounds
		}
	}
}

// await waits until another request has renewed its lease, but at most for half of the time that is left: it can wait for share
// of other regions. Await reports whether the renewal has ended.
func (s *serving) await(renewed <-chan struct{}) bool {
	ctx := s.Deadline()
	if end, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		ctx = half
	}
	select {
	case <-renewed:
		return true
	case <-ctx.Done():
		return false
	}
}

// try charges leases. If a charge has to wait for the renewal of a lease, it charges none, and returns the channel to wait
// for. If mayWait is false, it leaves such a charge to the store.
func (s *serving) try(mayWait bool) (served int, wait <-chan struct{}) {
	s.Trackers.Lock()
	defer s.Trackers.Unlock()
	s.Err = nil
	for i := range s.Lines {
		line := &s.Lines[i]
		t, tracked := s.tracker(s.Ask, i), line.Limit.Spread.Lease > 1
		if t == nil {
			continue
		}
		switch has := t.Lease.Left(s.Now) >= line.Want; {
		case has:
			use(s.Ask, i, t)
			served++
		case tracked && t.GivesUp(s.waitedFor == t):
			s.Err = t.Err
		case t.Renewing != nil && (!mayWait || !tracked): // the request charges the store and does not wait
		case t.Renewing != nil:
			s.waitedFor = t
			s.undo()
			return 0, t.Renewing
		default:
			line.Renews, s.Charges[i].Cost = t, max(line.Want, s.next(s.Now, t, line.Want))
		}
	}
	for i := range s.Lines {
		if t := s.Lines[i].Renews; t != nil {
			t.Renewing, s.renews[i] = make(chan struct{}), t
		}
	}
	return served, nil
}

// use charges the lease of t.
func use(a *chain.Ask, i int, t *table.Tracker) {
	line, l := &a.Lines[i], &t.Lease
	l.Used += line.Want
	line.Lease, line.Serial, line.LeaseLeft, a.Results[i] = t, l.Serial, l.Left(a.Now), l.Result
}

// undo returns what leases served, and forgets which leases to renew. The state of such a lease says nothing about a refusal.
// The caller holds the lock.
func (s *serving) undo() {
	for i := range s.Lines {
		line := &s.Lines[i]
		if line.Lease != nil {
			giveBack(s.Now, line, line.Want)
			s.Results[i] = algo.Result{}
		}
		line.Lease, line.Renews, s.Charges[i].Cost = nil, nil, line.Want
	}
}

// giveBack returns a part of the cost to the lease, if the tracker still has this lease and can use the part.
func giveBack(now algo.Instant, line *chain.Line, cost int64) bool {
	l := &line.Lease.Lease
	if l.Serial != line.Serial {
		return false
	}
	left := l.Left(now)
	l.Used -= cost
	if l.Left(now) > left {
		return true
	}
	l.Used += cost
	return false
}

// takeRest charges what leases do not serve.
func (s *serving) takeRest(served int) {
	a, below := s.Ask, s.Ask
	if served > 0 {
		below = a.Split(func(i int) bool { return a.Lines[i].Lease == nil })
	}
	below.Verdict = chain.Unanswered // it stays if the store panics
	defer func() {
		s.renewed(below)
		a.Merge(below)
		if a.Verdict != chain.Admitted {
			s.Trackers.Lock()
			s.undo()
			s.Trackers.Unlock()
		}
	}()
	if s.paused(below) {
		below.Early = true
		below.Fail(domain.ErrPaused)
		return
	}
	s.Below.Take(below)
}

// renewed keeps the leases that below has taken, and wakes the requests that wait for them.
func (s *serving) renewed(below *chain.Ask) {
	if below.Verdict == chain.Admitted && below.Err == nil {
		s.keep(below)
	}
	for i, t := range s.renews {
		if t != nil {
			s.Trackers.Lock()
			t.Err = below.Err
			t.EndRenewal()
			s.renews[i] = nil
			s.Trackers.Unlock()
		}
	}
}

// keep gives the spares of a to the trackers of their limits. A spare that no request took for a renewal is lost if it finds no
// tracker, or a lease that another request took meanwhile and that has more left.
func (l *Leases) keep(a *chain.Ask) {
	l.Trackers.Lock()
	defer l.Trackers.Unlock()
	for i := range a.Lines {
		line, c := &a.Lines[i], &a.Charges[i]
		t := line.Renews
		if c.Cost > line.Want && t == nil {
			t = l.Trackers.Get(a.Now, a.Subject, line.Limit)
			if t != nil && (t.Renewing != nil || t.Lease.Left(a.Now) >= c.Cost-line.Want) {
				t = nil
			}
		}
		if t == nil {
			continue
		}
		lease := &t.Lease
		lease.Renew(a.Now, a.Results[i], c.Cost, line.Want)
		lease.Clamped = false // a clamp is reported once
		lease.Grace = table.LeaseGrace(line.Limit)
		line.Lease, line.Serial, line.LeaseLeft = t, lease.Serial, lease.Granted-line.Want
	}
}

// next returns the size of the next lease of t, for a request whose cost is want. The caller holds the lock.
//
// The pressure does not fall while leases save calls. Without leases, all environments of a hot subject would
// throttle its item again at the same time.
func (l *Leases) next(now algo.Instant, t *table.Tracker, want int64) int64 {
	if t.Pressure.Raised() && t.Lease.Used > want && now.Sub(t.Lease.Taken).Abs() < 2*quota.LeaseLife {
		t.Pressure.Set(now, t.Pressure.Current(now))
		l.Trackers.ExtendPressure(t)
	}
	if lease := t.Limit.Spread.Lease; lease > 0 {
		return t.Lease.Next(now, want, lease)
	}
	most := t.Pressure.Current(now) * want
	return min(most, max(2*want, t.Lease.Next(now, want, most)))
}

// Settle implements chain.Layer. A lease gets a refund back. If it cannot use the refund, or if the actual cost is higher,
// the store makes the correction, because it counts the whole lease.
func (l *Leases) Settle(c *chain.Correction) {
	l.Trackers.Lock()
	for i := range c.Parts {
		p := &c.Parts[i]
		switch {
		case p.Lease == nil || p.Charge.Force:
		case giveBack(c.Now, &p.Line, p.Charge.Cost):
			p.Done = true
			c.Returned++
		case algo.Leaks(p.Result.Machine):
			p.Done = true
			c.Dropped++
		}
	}
	l.Trackers.Unlock()
	l.Below.Settle(c)
}
