package limiter

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Limiter decides requests with a Store. Make one per process with New. It is safe for concurrent use.
type Limiter struct {
	store     Store
	timeout   time.Duration
	remote    Remote // the store, if it is Remote
	shares    Shares // the store, if it can move share between regions
	regions   []Shares
	home      *algo.Regions // the place of this region in regions; nil if the store cannot move share
	transfers transfers
	intN      func(n int) int
	log       logs
	active    atomic.Int64 // requests that are being decided, and settlements on the shared store
	settled   atomic.Int64 // settlements on the shared store that have ended
	processClock
	table   *table   // what this process keeps of subjects
	notices *notices // nil without Options.Notify
	*shared          // nil for a Local store
}

// New returns a Limiter that uses store. The error names the option that is out of range.
func New(store Store, o Options) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("limiter: store: got nil, want a Store")
	}
	remote, _ := store.(Remote)
	if remote != nil && o.Timeout == 0 {
		o.Timeout = remote.Timeout()
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, remote: remote, timeout: o.Timeout, intN: o.IntN, log: logs{Logger: o.Logger}, table: newTable(o.Subjects)}
	if shares, ok := SharesOf(store); ok {
		l.shares, l.regions, l.home = shares, o.Regions, placeOf(o.Regions)
	}
	if o.Notify != nil {
		l.notices = &notices{table: l.table, write: o.Notify, log: &l.log}
	}
	if _, ok := store.(Local); ok {
		l.timeout = 0
		return l, nil
	}
	seen := &denials{l.table, o.CacheTTL, o.IntN}
	l.shared = &shared{
		store: store, clock: o.Clock, intN: o.IntN,
		denials: seen, trackers: &trackers{table: l.table, intN: o.IntN}, fallback: newFallback(seen),
		groups: groups{margin: o.Timeout / 10, waiting: map[Subject][]*waiter{}},
	}
	return l, nil
}

// sharesStore reports whether other processes charge the same store.
func (l *Limiter) sharesStore() bool { return l.shared != nil }

func (l *Limiter) concurrentClock() ConcurrentClock {
	if l.shared == nil {
		return nil
	}
	clock, _ := l.clock.(ConcurrentClock)
	return clock
}

// Now returns the time for a decision. It is the clock of this process, corrected to the clock of the store if the
// skew is known to within 10 ms. Read it once per request.
//
// When the estimate of the skew changes, Now can jump backward or forward, like a clock that is set. A jump backward
// never causes too many admissions. For a Local store, Now never runs back, and follows a clock that is more than a
// second ahead; the result has no monotonic reading.
func (l *Limiter) Now() time.Time {
	if !l.sharesStore() {
		return l.now()
	}
	now := time.Now()
	if ahead, uncertainty, ok := ClockSkew(l.store); ok && uncertainty <= exactSkew {
		return now.Add(-ahead)
	}
	return now
}
