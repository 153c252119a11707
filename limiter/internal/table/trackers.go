package table

import (
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// Trackers are the trackers of this process. If there is no room for another tracker, a charge goes to the store as if
// its limit had no Spread.
type Trackers struct {
	*Table
	IntN func(n int) int // returns a random number below n

	// pressureUntil is an instant after which no tracker is under pressure, unless pressure rises again.
	pressureUntil atomic.Int64
}

// find returns the tracker of a limit; nil if there is none. The caller holds the lock.
func (ts *Trackers) find(subject domain.Subject, id domain.ID) *Tracker {
	for _, t := range ts.Of(subject).trackers {
		if t.Limit.ID == id {
			return t
		}
	}
	return nil
}

// Get returns the tracker of a limit, and creates it if necessary. It returns nil if there is no room.
// The caller holds the lock.
func (ts *Trackers) Get(now algo.Instant, subject domain.Subject, limit *domain.Limit) *Tracker {
	t := ts.find(subject, limit.ID)
	switch {
	case t != nil && limit.Knows(t.Limit):
		return t
	case t != nil && t.Renewing != nil: // a request renews the tracker under the old rules
		return t
	case t != nil: // the rules changed; the counter keeps its count
		*t = Tracker{Limit: limit, Lease: quota.Lease{Serial: t.Lease.Serial}, Counter: t.Counter.Renew(now, counterRules(limit))}
		return t
	case !ts.Room(now, ts.ForOthers()):
		return nil
	}
	t = &Tracker{Limit: limit, Counter: quota.NewCounter(counterRules(limit))}
	e := ts.Open(subject)
	e.trackers = append(e.trackers, t)
	ts.Changed(e)
	return t
}

func counterRules(l *domain.Limit) quota.CounterRules {
	rules := quota.CounterRules{Machine: l.Machine(), Horizon: l.Horizon, Interval: l.Spread.Sync, Admitted: l.Machine()}
	if r := l.Syncs(); r != nil {
		rules.Admitted = r.Admitted.Machine()
	}
	return rules
}

// EndRenewal wakes the requests that wait for the tracker. The caller holds the lock.
func (t *Tracker) EndRenewal() {
	close(t.Renewing)
	t.Renewing = nil
}

// GivesUp reports whether a request should not wait for the store. This is true if the last call had no answer, and
// either the request waited for that call or another call is in flight. Otherwise each request would wait until its
// deadline in an outage.
func (t *Tracker) GivesUp(waited bool) bool {
	return !domain.Answered(t.Err) && (t.Renewing != nil || waited)
}

// Count returns what the counter of a limit counts. The result has no Machine if there is no counter. The caller holds
// the lock.
func (ts *Trackers) Count(subject domain.Subject, id domain.ID) algo.Result {
	if t := ts.find(subject, id); t != nil {
		return t.Counter.Counted()
	}
	return algo.Result{}
}

// AnyPressure reports whether a tracker may be under pressure. It takes no lock.
func (ts *Trackers) AnyPressure(now algo.Instant) bool {
	return now <= algo.Instant(ts.pressureUntil.Load())
}

// ExtendPressure makes AnyPressure true until the pressure of t ends.
func (ts *Trackers) ExtendPressure(t *Tracker) {
	ts.pressureUntil.Store(max(int64(t.Pressure.End()), ts.pressureUntil.Load()))
}

// Pressed returns the tracker of a limit if it is under pressure at the instant now, and nil otherwise. The
// caller holds the lock.
func (ts *Trackers) Pressed(now algo.Instant, subject domain.Subject, limit *domain.Limit) *Tracker {
	t := ts.find(subject, limit.ID)
	if t == nil || !limit.Knows(t.Limit) || t.Pressure.Current(now) <= 1 {
		return nil
	}
	return t
}

// RaisePressure raises the pressure on the limits of the charges. If pause is true, the process also makes no
// call for these limits for a random time.
func (ts *Trackers) RaisePressure(now algo.Instant, charges []domain.Charge, pause bool) {
	ts.Lock()
	defer ts.Unlock()
	for _, c := range charges {
		t := ts.Get(now, c.Subject, c.Limit)
		if t == nil {
			continue
		}
		t.Pressure.Raise(now)
		if pause {
			t.Pressure.Pause(now, LeasesHelp(t.Limit), ts.IntN)
		}
		ts.ExtendPressure(t)
	}
}

// Paused reports whether the process makes no call for a limit of the subject, because the item is busy.
func (ts *Trackers) Paused(now algo.Instant, subject domain.Subject, limit *domain.Limit) bool {
	return ts.holds(now, subject, limit, (*quota.Pressure).Paused)
}

// Hot reports whether this process has recently seen that the requests of subject overload its item.
func (ts *Trackers) Hot(now algo.Instant, subject domain.Subject, limit *domain.Limit) bool {
	return ts.holds(now, subject, limit, (*quota.Pressure).Hot)
}

func (ts *Trackers) holds(now algo.Instant, subject domain.Subject, limit *domain.Limit, is func(*quota.Pressure, algo.Instant) bool) bool {
	ts.Lock()
	defer ts.Unlock()
	t := ts.Pressed(now, subject, limit)
	return t != nil && is(&t.Pressure, now)
}

// Leasable reports whether a process under pressure may take requests of l in advance. Some limits are not leasable:
//
//   - A settlement corrects a charge in the store, so a limit with a Count charges each request there.
//   - A log records the instant of each request.
//   - A leaky bucket spaces requests.
//   - A lease of a bucket that drains fast leaks before it is used.
//   - A threshold (Rate.Of) is exact for each request.
//   - A limit with a Spread saves store calls in its own way.
func Leasable(l *domain.Limit) bool {
	switch {
	case l.Spread != domain.Spread{}, l.Count.Settles(), l.Regions() != nil, l.Rate.Of > 0, algo.KeepsInstants(l.Machine()):
		return false
	}
	return !algo.Leaks(l.Machine()) || LeaseGrace(l) >= minGrace
}

// The first lease after a throttled call holds at most FirstLease requests, and at most 1/FirstLeasePart of
// the remaining quota. It is small, because another subject may make the partition hot.
const (
	FirstLease     = 4
	FirstLeasePart = 256
)

// LeasesHelp reports whether leases of l can be large enough to save most writes.
func LeasesHelp(l *domain.Limit) bool {
	return Leasable(l) && l.Machine().Capacity() >= FirstLease*FirstLeasePart
}

// Under pressure, a lease of a bucket keeps all its quota for a grace time, and then leaks. The grace time is
// the bucket's depth divided by gracePart, and at most quota.LeaseLife. Therefore, the bucket exceeds its burst
// by at most 1/gracePart, which is 1 %. A lease with a grace time below minGrace would save no call, so such a
// bucket is not leased.
const (
	gracePart = 100
	minGrace  = 100 * time.Millisecond
)

// LeaseGrace returns how long a lease of l keeps all of its quota; 0 for Spread.Lease.
func LeaseGrace(l *domain.Limit) time.Duration {
	if !algo.Leaks(l.Machine()) || l.Spread.Lease > 0 || l.Rate.Algorithm.Queues() {
		return 0
	}
	return min(quota.LeaseLife, algo.Leak(l.Machine(), l.Machine().Capacity())/gracePart)
}
