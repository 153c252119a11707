package limiter

import (
	"math/bits"
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
	intN func(n int) int

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

// next returns the size of the next lease at now, for a request that costs want.
func (a *account) next(now algo.Instant, want int64) int64 {
	if lease := a.limit.Spread.Lease; lease > 0 {
		return a.lease.Next(now, want, lease)
	}
	most := a.strain.now(now) * want
	return min(most, max(2*want, a.lease.Next(now, want, most)))
}

// answered wakes the requests that wait for the account. The caller holds the lock.
func (a *account) answered() {
	close(a.asking)
	a.asking = nil
}

// serves reports whether a can decide a request by itself that costs want on limit. The rules of
// limit may be newer than those of a.
func (a *account) serves(now algo.Instant, limit *Limit, want int64) bool {
	if limit.Spread.counted() {
		return a.counter.Known() && (a.failed == nil || busy(a.failed) || limit.countsAlone())
	}
	return a.lease.Left(now) >= want
}

// countsAlone reports whether a counter may continue by itself while the store fails. It then has all
// of the limit, so it may not if processes divide the limit.
func (l *Limit) countsAlone() bool {
	return l.Shadow || l.OnError == OnErrorAllow || l.OnError == OnErrorLocal && l.LocalProcesses == 1
}

// lost reports whether a request should not wait for the store: the last call had no answer, and
// either the request waited for that call, or another one is in flight. Otherwise an outage would cost
// every waiting request its deadline, not only the one that makes the call.
func (a *account) lost(waited bool) bool {
	return !Answered(a.failed) && (a.asking != nil || waited)
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

// strained reports whether any limit may be strained. If it returns false, a decision looks no
// further.
func (s *accounts) strained(now algo.Instant) bool {
	return now <= algo.Instant(s.strainedUntil.Load())
}

// prolong extends strained to the end of the strain of a.
func (s *accounts) prolong(a *account) {
	end := int64(a.strain.at.Add(time.Duration(bits.Len64(uint64(a.strain.level))) * strainLife))
	s.strainedUntil.Store(max(end, s.strainedUntil.Load()))
}

// strain returns the account of a charge that is strained at now; nil if it is not. The caller
// holds the lock.
func (s *accounts) strain(now algo.Instant, subject Subject, limit *Limit) *account {
	a := s.table[accountKey{subject, limit.ID}]
	if a == nil || a.limit != limit || a.strain.now(now) <= 1 {
		return nil
	}
	return a
}

// renew returns the size of the next lease of a. While leases spare calls the strain does not fade:
// without them the environments of a hot subject would throttle its item again, all at the same time.
// The caller holds the lock.
func (s *accounts) renew(now algo.Instant, a *account, want int64) int64 {
	if a.strain.level > 1 && a.lease.Used > want && now.Sub(a.lease.Taken).Abs() < 2*local.LeaseLife {
		a.strain.level, a.strain.at = a.strain.now(now), now
		s.prolong(a)
	}
	return a.next(now, want)
}

// signal strains the limits of charges. With rest the store is not called for them for a while.
func (s *accounts) signal(now algo.Instant, charges []Charge, rest bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range charges {
		a := s.of(now, c.Subject, c.Limit)
		if a == nil {
			continue
		}
		a.strain.signal(now)
		if rest {
			a.strain.rest(now, a.limit.leasesHelp(), s.intN)
		}
		s.prolong(a)
	}
}

// resting reports whether the store is not called for a limit of subject, because the item is busy.
func (s *accounts) resting(now algo.Instant, subject Subject, limit *Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.strain(now, subject, limit)
	return a != nil && a.strain.until > now && a.strain.until.Sub(now) <= maxRest
}

// hot reports whether this environment has recently seen that subject makes its own item busy.
func (s *accounts) hot(now algo.Instant, subject Subject, limit *Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.strain(now, subject, limit)
	return a != nil && now.Sub(a.strain.hot).Abs() < strainLife
}

// first makes a charge that costs want a lease, if the limit has room for one and no other request
// renews the account. It returns nil if there is no lease. The item is throttled, so the write that
// succeeds also serves the next requests.
func (s *accounts) first(now algo.Instant, subject Subject, limit *Limit, want, room int64) (a *account, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size = min(firstLease*want, room/firstLeasePart)
	a = s.of(now, subject, limit)
	if size <= want || a == nil || a.asking != nil {
		return nil, 0
	}
	a.strain.level, a.strain.at = max(a.strain.now(now), size/want), now
	s.prolong(a)
	a.asking = make(chan struct{})
	return a, size
}
