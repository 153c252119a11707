package limiter

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// strain measures how hard an environment finds it to charge a limit of a subject, because its
// requests come faster than the store can write its item. Every signal doubles the strain. It
// halves after strainLife without a signal, unless leases still spare calls. The zero value is none.
//
// A strained limit that can be leased takes leases, each of as many requests as the strain at
// most. For any other limit the store is not called for a while after a throttled call; the more
// strain, the longer.
type strain struct {
	level int64        // at the last signal: 2, 4, 8 ...
	at    algo.Instant // of the last signal
	until algo.Instant // no call of the store before
	hot   algo.Instant // of the last sign that this subject itself makes its item busy
}

// Bounds of a strain. Leases are bounded by the limit too: by half of what remains.
const (
	maxStrain  = 1 << 20
	strainLife = 4 * time.Second
)

// A strained limit without a lease rests for restPerStrain times its strain, up to maxRest.
const (
	restPerStrain = 250 * time.Millisecond
	maxRest       = 3 * time.Second
)

// The first lease after a throttled call holds firstLease requests. It takes at most one part in
// firstLeasePart of what remains of the limit, because the subject may not be the hot one.
const (
	firstLease     = 4
	firstLeasePart = 256
)

// errResting is the failure of a call that was not made, because the item of its subject is busy.
var errResting = fmt.Errorf("%w: %w: waiting after throttled calls", ErrUnavailable, ErrItemThrottled)

// now returns the strain at now; 0 or 1 is none.
func (s *strain) now(now algo.Instant) int64 {
	return s.level >> min(62, max(0, now.Sub(s.at))/strainLife)
}

// signal doubles the strain of a hot subject.
func (s *strain) signal(now algo.Instant) {
	s.level, s.at, s.hot = min(2*max(1, s.now(now)), maxStrain), now, now
}

// rest keeps calls from the store for a random time.
func (s *strain) rest(now algo.Instant, leasable bool, intN func(int) int) {
	rest := min(time.Duration(s.level)*restPerStrain, maxRest)
	if leasable {
		rest = min(time.Duration(s.level/32)*restPerStrain, maxRest)
	}
	s.until = now.Add(rest/2 + time.Duration(intN(int(rest/2)+1)))
}

// leasable reports whether an environment may take requests of l in advance. A log records the
// instant of each request, a leaky bucket spaces requests, and a lease of a shallow bucket leaks
// before it is used. A document that spreads a limit decides by itself.
func (l *Limit) leasable() bool {
	if _, ok := l.machine.(*algo.Bucket); ok && l.grace() < minGrace {
		return false
	}
	return l.Spread == Spread{} && l.Rate.Algorithm != algo.SlidingLog
}

// leasesHelp reports whether leases of l can be large enough that they spare most writes.
func (l *Limit) leasesHelp() bool {
	return l.leasable() && l.machine.Capacity() >= firstLease*firstLeasePart
}

// A lease that a bucket grants under pressure begins to leak after one part in gracePart of the
// bucket's depth. So it admits at most that part of the burst too many, 1 %, at one time. With a
// grace below minGrace a lease is not worth its call.
const (
	gracePart = 100
	minGrace  = 100 * time.Millisecond
)

// grace returns how long a lease of l serves all that it holds; 0 for a lease that the document sets.
func (l *Limit) grace() time.Duration {
	bucket, ok := l.machine.(*algo.Bucket)
	if !ok || l.Spread.Lease > 0 || l.Rate.Algorithm == algo.LeakyBucket {
		return 0
	}
	return min(local.LeaseLife, bucket.Depth/gracePart)
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

// renew sizes the next lease of an item. While leases spare calls the strain does not fade: without
// them the environments of a hot subject would throttle its item again, all at the same time. The
// caller holds the lock.
func (s *accounts) renew(now algo.Instant, a *account, it *item) {
	if a.strain.level > 1 && a.lease.Used > it.want && now.Sub(a.lease.Taken).Abs() < 2*local.LeaseLife {
		a.strain.level, a.strain.at = a.strain.now(now), now
		s.prolong(a)
	}
	it.lease, it.size = a, a.next(now, it)
}

// signal strains the limits of charges. With rest the store is not called for them for a while.
func (l *Limiter) signal(now algo.Instant, charges []Charge, rest bool) {
	s := l.accounts
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range charges {
		a := s.of(now, c.Subject, c.Limit)
		if a == nil {
			continue
		}
		a.strain.signal(now)
		if rest {
			a.strain.rest(now, a.limit.leasesHelp(), l.intN)
		}
		s.prolong(a)
	}
}

// resting reports whether p makes no call, because the item of its subject is busy. Looks and
// forced charges always make one.
func (l *Limiter) resting(now algo.Instant, p *part) bool {
	s := l.accounts
	if !s.strained(now) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(p.items, func(it item) bool {
		a := s.strain(now, it.Subject, it.limit)
		return a != nil && it.Cost > 0 && !it.Force && a.strain.until > now && a.strain.until.Sub(now) <= maxRest
	})
}

// hot reports whether this environment has recently seen that subject makes its own item busy.
func (s *accounts) hot(now algo.Instant, subject Subject, limit *Limit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.strain(now, subject, limit)
	return a != nil && now.Sub(a.strain.hot).Abs() < strainLife
}

// leaseFirst turns the charges of p into leases where the limits have much room. The item is
// throttled, so the write that succeeds also serves the next requests.
func (l *Limiter) leaseFirst(r *request, p *part) {
	s := l.accounts
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range p.items {
		it := &p.items[i]
		if it.lease != nil || it.Force || it.want == 0 || !it.limit.leasable() {
			continue
		}
		room := it.limit.machine.Capacity()
		if seen := p.results[i]; seen.Machine != nil {
			room = seen.Machine.Remaining(seen.State, r.now)
		}
		size := min(firstLease*it.want, room/firstLeasePart)
		a := s.of(r.now, it.Subject, it.limit)
		if size <= it.want || a == nil || a.asking != nil {
			continue
		}
		a.strain.level, a.strain.at = max(a.strain.now(r.now), size/it.want), r.now
		s.prolong(a)
		it.lease, it.size, p.charges[i].Cost = a, size, size
		a.asking = make(chan struct{})
		r.asks = append(r.asks, a)
	}
}

// A bucket's lease is charged as of a random instant, at most one part in backdatePart of the
// bucket's depth ago, and at most maxBackdate.
const (
	backdatePart = 1024
	maxBackdate  = 50 * time.Millisecond
)

// chargeAt returns the instant at which the charges of p are made. It is now, or a little earlier
// for leases of a bucket that may be more than half full. DynamoDB needs a second write for an idle
// bucket, and a bucket that many environments charge is idle half of the time. At a slightly
// earlier instant the bucket is busy, so nearly every charge takes one write. hint then holds the
// state that the store is expected to have. The lag admits at most one part in backdatePart of the
// burst too many.
func (l *Limiter) chargeAt(now algo.Instant, p *part) (at algo.Instant, hint []algo.Result) {
	lag := maxBackdate
	for i := range p.items {
		bucket, ok := p.charges[i].Limit.machine.(*algo.Bucket)
		if !ok || p.items[i].lease == nil || p.items[i].limit.Spread.Lease > 0 {
			return now, nil
		}
		if seen := p.results[i]; seen.Machine != nil && 2*seen.Machine.Remaining(seen.State, now) < seen.Machine.Capacity() {
			return now, nil
		}
		hint = append(hint, algo.Result{Machine: bucket, State: algo.State{TAT: now}})
		lag = min(lag, bucket.Depth/backdatePart)
	}
	return now.Add(-time.Duration(l.intN(int(lag)))), hint
}
