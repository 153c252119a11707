package limiter

import (
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// served is a charge that a tracker of this process decided.
type served struct {
	item    *item
	tracker *tracker
	allowed bool
	result  algo.Result // the state after the charge, or the state that refused it
	taken   local.Taken // the charge on the counter, if the tracker has one
	serial  int64       // of the lease, if the tracker has one
	undone  bool        // undo was called
}

// use charges the item to the lease of its tracker.
func (s *served) use(now algo.Instant) {
	l := &s.tracker.lease
	l.Used += s.item.want
	s.allowed, s.result, s.serial, s.item.leaseLeft = true, l.Result, l.Serial, l.Left(now)
}

// undo returns the charge to its lease, if the tracker still has this lease. It returns the charge to the
// counter, if the counter has not sent the charge yet.
func (s *served) undo() Refunds {
	nothing := !s.allowed || s.item.Cost == 0 || s.undone
	s.undone = true
	switch {
	case nothing:
		return Refunds{}
	case s.item.limit.Spread.hasCounter():
		if !s.tracker.counter.Undo(s.taken) {
			return Refunds{Dropped: 1}
		}
	case s.tracker.lease.Serial == s.serial:
		s.tracker.lease.Used -= s.item.want
	default:
		return Refunds{Dropped: 1}
	}
	return Refunds{Given: 1}
}
