package limiter

import (
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// trackers are the trackers of this process. If there is no room for another tracker, a charge goes to the store as if
// its limit had no Spread.
type trackers struct {
	*table
	intN func(n int) int

	// pressureUntil is an instant after which no tracker is under pressure, unless pressure rises again.
	pressureUntil atomic.Int64
}

// find returns the tracker of a limit; nil if there is none. The caller holds the lock.
func (ts *trackers) find(subject Subject, id ID) *tracker {
	for _, t := range ts.of(subject).trackers {
		if t.limit.ID == id {
			return t
		}
	}
	return nil
}

// get returns the tracker of a limit, and creates it if necessary. It returns nil if there is no room.
// The caller holds the lock.
func (ts *trackers) get(now algo.Instant, subject Subject, limit *Limit) *tracker {
	t := ts.find(subject, limit.ID)
	switch {
	case t != nil && limit.knows(t.limit):
		return t
	case t != nil && t.renewing != nil: // a request renews the tracker under the old rules
		return t
	case t != nil: // the rules changed; the counter keeps its count
		*t = tracker{limit: limit, lease: quota.Lease{Serial: t.lease.Serial}, counter: t.counter.Renew(now, limit.counterRules())}
		return t
	case !ts.room(now, ts.forOthers()):
		return nil
	}
	t = &tracker{limit: limit, counter: quota.NewCounter(limit.counterRules())}
	e := ts.open(subject)
	e.trackers = append(e.trackers, t)
	ts.changed(e)
	return t
}

// endRenewal wakes the requests that wait for the tracker. The caller holds the lock.
func (t *tracker) endRenewal() {
	close(t.renewing)
	t.renewing = nil
}

// serves reports whether t can decide a request without the store. want is the cost of the request. The rules of the
// limit can be newer than the rules of t.
func (t *tracker) serves(now algo.Instant, limit *Limit, want int64) bool {
	if limit.Spread.hasCounter() {
		return t.counter.Known() && (t.err == nil || busy(t.err) || limit.countsAlone())
	}
	return t.lease.Left(now) >= want
}

// countsAlone reports whether a counter may continue while the store fails. The counter then enforces
// the whole limit. Therefore, it must not continue if LocalProcesses divide the limit.
func (l *Limit) countsAlone() bool {
	return l.Shadow || l.OnError == OnErrorAllow || l.OnError == OnErrorLocal && l.LocalProcesses == 1
}

// givesUp reports whether a request should not wait for the store. This is true if the last call had no answer, and
// either the request waited for that call or another call is in flight. Otherwise each request would wait until its
// deadline in an outage.
func (t *tracker) givesUp(waited bool) bool {
	return !Answered(t.err) && (t.renewing != nil || waited)
}

// count returns what the counter of a limit counts. The result has no Machine if there is no counter. The caller holds
// the lock.
func (ts *trackers) count(subject Subject, id ID) algo.Result {
	if t := ts.find(subject, id); t != nil {
		return t.counter.Counted()
	}
	return algo.Result{}
}

// anyPressure reports whether a tracker may be under pressure. It takes no lock.
func (ts *trackers) anyPressure(now algo.Instant) bool {
	return now <= algo.Instant(ts.pressureUntil.Load())
}

// extendPressure makes anyPressure true until the pressure of t ends.
func (ts *trackers) extendPressure(t *tracker) {
	ts.pressureUntil.Store(max(int64(t.pressure.End()), ts.pressureUntil.Load()))
}

// pressed returns the tracker of a limit if it is under pressure at the instant now, and nil otherwise. The
// caller holds the lock.
func (ts *trackers) pressed(now algo.Instant, subject Subject, limit *Limit) *tracker {
	t := ts.find(subject, limit.ID)
	if t == nil || !limit.knows(t.limit) || t.pressure.Current(now) <= 1 {
		return nil
	}
	return t
}

// raisePressure raises the pressure on the limits of the charges. If pause is true, the process also makes no
// call for these limits for a random time.
func (ts *trackers) raisePressure(now algo.Instant, charges []Charge, pause bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, c := range charges {
		t := ts.get(now, c.Subject, c.Limit)
		if t == nil {
			continue
		}
		t.pressure.Raise(now)
		if pause {
			t.pressure.Pause(now, t.limit.leasesHelp(), ts.intN)
		}
		ts.extendPressure(t)
	}
}

// paused reports whether the process makes no call for a limit of the subject, because the item is busy.
func (ts *trackers) paused(now algo.Instant, subject Subject, limit *Limit) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.pressed(now, subject, limit)
	return t != nil && t.pressure.Paused(now)
}

// hot reports whether this process has recently seen that the requests of subject overload its item.
func (ts *trackers) hot(now algo.Instant, subject Subject, limit *Limit) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.pressed(now, subject, limit)
	return t != nil && t.pressure.Hot(now)
}

// nextLease returns the size of the next lease of t, for a request whose cost is want. The caller holds the
// lock.
//
// The pressure does not fall while leases save calls. Without leases, all environments of a hot subject would
// throttle its item again at the same time.
func (ts *trackers) nextLease(now algo.Instant, t *tracker, want int64) int64 {
	if t.pressure.Raised() && t.lease.Used > want && now.Sub(t.lease.Taken).Abs() < 2*quota.LeaseLife {
		t.pressure.Set(now, t.pressure.Current(now))
		ts.extendPressure(t)
	}
	if lease := t.limit.Spread.Lease; lease > 0 {
		return t.lease.Next(now, want, lease)
	}
	most := t.pressure.Current(now) * want
	return min(most, max(2*want, t.lease.Next(now, want, most)))
}

// The first lease after a throttled call holds at most firstLeaseRequests requests, and at most 1/firstLeasePart of
// the remaining quota. It is small, because another subject may make the partition hot.
const (
	firstLeaseRequests = 4
	firstLeasePart     = 256
)

// firstLease returns the tracker and the size of a lease for a charge on a throttled item. want is the cost of
// the request. The write that succeeds then also serves the next requests. firstLease returns nil if the limit
// has too little room for a lease, or if another request renews the tracker.
func (ts *trackers) firstLease(now algo.Instant, subject Subject, limit *Limit, want, room int64) (t *tracker, size int64) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	size = min(firstLeaseRequests*want, room/firstLeasePart)
	t = ts.get(now, subject, limit)
	if size <= want || t == nil || t.renewing != nil {
		return nil, 0
	}
	t.pressure.Set(now, max(t.pressure.Current(now), size/want))
	ts.extendPressure(t)
	t.renewing = make(chan struct{})
	return t, size
}

func (l *Limit) counterRules() quota.CounterRules {
	rules := quota.CounterRules{Machine: l.machine, Horizon: l.Horizon, Interval: l.Spread.Sync, Admitted: l.machine}
	if l.reports != nil {
		rules.Admitted = l.reports.admitted.machine
	}
	return rules
}

func (l *Limit) reportCharges(subject Subject, out quota.Report) []Charge {
	charge := func(l *Limit, cost int64) Charge {
		return Charge{Subject: subject, Limit: l, Cost: cost, Force: true}
	}
	return []Charge{charge(l.reports.admitted, out.Count), charge(l.reports.demand, out.Demand),
		charge(l.reports.processes, out.Interval.Milliseconds())}
}

// leasable reports whether a process under pressure may take requests of l in advance. Some limits are not leasable:
//
//   - A settlement corrects a charge in the store, so a limit with a Count charges each request there.
//   - A log records the instant of each request.
//   - A leaky bucket spaces requests.
//   - A lease of a bucket that drains fast leaks before it is used.
//   - A threshold (Rate.Of) is exact for each request.
//   - A limit with a Spread saves store calls in its own way.
func (l *Limit) leasable() bool {
	switch {
	case l.Spread != Spread{}, l.Count.Settles(), l.regions != nil, l.Rate.Of > 0, algo.KeepsInstants(l.machine):
		return false
	}
	return !algo.Leaks(l.machine) || l.leaseGrace() >= minGrace
}

// leasesHelp reports whether leases of l can be large enough to save most writes.
func (l *Limit) leasesHelp() bool {
	return l.leasable() && l.machine.Capacity() >= firstLeaseRequests*firstLeasePart
}

// Under pressure, a lease of a bucket keeps all its quota for a grace time, and then leaks. The grace time is
// the bucket's depth divided by gracePart, and at most quota.LeaseLife. Therefore, the bucket exceeds its burst
// by at most 1/gracePart, which is 1 %. A lease with a grace time below minGrace would save no call, so such a
// bucket is not leased.
const (
	gracePart = 100
	minGrace  = 100 * time.Millisecond
)

// leaseGrace returns how long a lease of l keeps all of its quota; 0 for Spread.Lease.
func (l *Limit) leaseGrace() time.Duration {
	if !algo.Leaks(l.machine) || l.Spread.Lease > 0 || l.Rate.Algorithm.Queues() {
		return 0
	}
	return min(quota.LeaseLife, algo.Leak(l.machine, l.machine.Capacity())/gracePart)
}
