package limiter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// account is what this process holds of one limit of a subject: a lease or a counter, and the strain
// of the limit.
type account struct {
	limit   *Limit
	lease   local.Lease
	strain  strain
	counter local.Counter
	// asking is closed when the store has answered the request that renews the account; nil if
	// none does.
	asking chan struct{}
	// failed is the error of the last such call.
	failed error
}

// accounts are the accounts of this process. Their number is bounded: without room for another one,
// a charge goes to the store as if its limit had no Spread.
type accounts struct {
	most int

	// strainedUntil is an instant after which no limit is strained, unless there is another signal.
	strainedUntil atomic.Int64

	mu    sync.Mutex
	table map[accountKey]*account
	swept algo.Instant
}

type accountKey struct {
	subject Subject
	id      ID
}

// of returns the account of a charge; nil if there is no room. The caller holds the lock.
func (s *accounts) of(now algo.Instant, subject Subject, limit *Limit) *account {
	key := accountKey{subject, limit.ID}
	a := s.table[key]
	switch {
	case a != nil && a.limit == limit:
		return a
	case a != nil && a.asking != nil: // it is renewed under the old rules
		return a
	case a != nil: // the rules changed; the counter keeps what is pending
		*a = account{limit: limit, lease: local.Lease{Serial: a.lease.Serial}, counter: a.counter.Renew(limit.counterRules())}
		return a
	case len(s.table) >= s.most && !s.sweep(now):
		return nil
	}
	a = &account{limit: limit, counter: local.NewCounter(limit.counterRules())}
	s.table[key] = a
	return a
}

// next returns the size of the next lease of an item at now.
func (a *account) next(now algo.Instant, it *item) int64 {
	if lease := it.limit.Spread.Lease; lease > 0 {
		return a.lease.Next(now, it.want, lease)
	}
	most := a.strain.now(now) * it.want
	return min(most, max(2*it.want, a.lease.Next(now, it.want, most)))
}

// answered wakes the requests that wait for the account. The caller holds the lock.
func (a *account) answered() {
	close(a.asking)
	a.asking = nil
}

// serves reports whether a can decide the item by itself.
func (a *account) serves(now algo.Instant, it *item) bool {
	if it.limit.Spread.counted() {
		return a.counter.Known() && (a.failed == nil || busy(a.failed) || it.alone())
	}
	return a.lease.Left(now) >= it.want
}

// lost reports whether r should not wait for the store: the last call had no answer, and either r
// waited for that call, or another one is in flight. Otherwise an outage would cost every waiting
// request its deadline, not only the one that makes the call.
func (a *account) lost(r *request) bool {
	return !Answered(a.failed) && (a.asking != nil || r.waited == a)
}

// sweep removes idle accounts, at most once a second, and reports whether there is room.
func (s *accounts) sweep(now algo.Instant) bool {
	if age := now.Sub(s.swept); age >= 0 && age < time.Second {
		return false
	}
	s.swept = now
	for key, a := range s.table {
		if a.idle(now) {
			delete(s.table, key)
		}
	}
	return len(s.table) < s.most
}

// idle reports whether a may be removed.
func (a *account) idle(now algo.Instant) bool {
	if a.asking != nil || a.lease.Left(now) > 0 || a.strain.now(now) > 1 {
		return false
	}
	return a.counter.Idle(now)
}

func (s *accounts) forget(subject Subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.table {
		if key.subject == subject && a.asking == nil {
			delete(s.table, key)
		}
	}
}

// counted returns the count of the counter of a limit; no Machine if there is none.
func (s *accounts) counted(subject Subject, id ID) algo.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.table[accountKey{subject, id}]; a != nil {
		return a.counter.Result
	}
	return algo.Result{}
}
