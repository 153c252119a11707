package limiter

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// strain is how hard an environment finds it to charge a limit of a subject, whose requests come
// faster than its item can be written. Every signal doubles it, and every second without one
// halves it. The zero value is none.
//
// A strained limit that can be leased takes leases, of as many requests as its strain at most.
// Any other is not asked for a while after it was throttled, longer the more it is strained.
type strain struct {
	level int64        // at the last signal: 2, 4, 8 ...
	at    algo.Instant // of the last signal
	until algo.Instant // the store is not asked before
}

// Bounds of a strain. Leases are bounded by the limit too: by half of what remains.
const (
	maxStrain = 1 << 20
	quiet     = 4 * time.Second // after which a strain halves
)

// A subject that the store throttles is tried again so often in one decision. An environment
// in which several others were throttled within a second leaves that out: it is not this subject.
const (
	tries   = 3
	several = 4
)

// A strained limit without a lease is not asked for holdPerStrain times its strain, up to maxHold.
const (
	holdPerStrain = 20 * time.Millisecond
	maxHold       = 3 * time.Second
)

// errResting is the failure of a call that was not made, because the item of its subject is busy.
var errResting = fmt.Errorf("%w: %w: not asked for now", ErrUnavailable, ErrItemThrottled)

// errQuiet marks a throttled subject as a quiet one: another item made the partition busy, and on_error
// decides. The store has answered.
var errQuiet = errors.New("another item is busy")

// now returns the strain at now; 0 or 1 is none.
func (s *strain) now(now algo.Instant) int64 {
	return s.level >> min(62, max(0, now.Sub(s.at))/quiet)
}

// signal doubles the strain.
func (s *strain) signal(now algo.Instant) {
	s.level, s.at = min(2*max(1, s.now(now)), maxStrain), now
}

// hold lets the store rest from the subject for a random time.
func (s *strain) hold(now algo.Instant, leasable bool, intN func(int) int) {
	rest := min(time.Duration(s.level)*holdPerStrain, maxHold)
	if leasable {
		rest = min(time.Duration(s.level/32)*holdPerStrain, maxHold)
	}
	s.until = now.Add(rest/2 + time.Duration(intN(int(rest/2)+1)))
}

// leasable reports whether an environment may take requests of l in advance. A log knows the
// instant of each request, a leaky bucket spaces them, a lease of a shallow bucket leaks away before
// it is used, and a document that says how a limit is spread has its way.
func (l *Limit) leasable() bool {
	if _, ok := l.machine.(*algo.Bucket); ok && l.grace() < minGrace {
		return false
	}
	return l.Spread == Spread{} && l.Rate.Algorithm != algo.SlidingLog
}

// A bucket's lease that was taken under pressure begins to leak after a part of the bucket's
// depth: so it admits that part of the burst too many at most, 0.8 %, at one time. One that would
// begin to before minGrace is not worth taking.
const (
	gracePart = 128
	minGrace  = 100 * time.Millisecond
)

// grace returns how long a lease of l serves all that it holds; 0 for one that the document asks for.
func (l *Limit) grace() time.Duration {
	bucket, ok := l.machine.(*algo.Bucket)
	if !ok || l.Spread.Lease > 0 || l.Rate.Algorithm == algo.LeakyBucket {
		return 0
	}
	return min(local.LeaseLife, bucket.Depth/gracePart)
}

// strained reports whether any limit may be, so that all others cost no more than this.
func (s *accounts) strained(now algo.Instant) bool {
	return now <= algo.Instant(s.strainedUntil.Load())
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

// signal strains the limits of charges. With rest the store is not asked for them for a while.
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
			a.strain.hold(now, a.limit.leasable(), l.intN)
		}
		end := int64(now.Add(time.Duration(bits.Len64(uint64(a.strain.level))) * quiet))
		s.strainedUntil.Store(max(end, s.strainedUntil.Load()))
	}
}

// resting reports whether the store is not asked for p, because its subject is busy. Looks and
// forced charges always ask.
func (l *Limiter) resting(now algo.Instant, p *part) bool {
	s := l.accounts
	if !s.strained(now) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(p.items, func(it item) bool {
		a := s.strain(now, it.Subject, it.limit)
		return a != nil && it.Cost > 0 && !it.Force && a.strain.until > now && a.strain.until.Sub(now) <= maxHold
	})
}

// press meets the pressure on the subject of p, if that is why its call has failed.
func (l *Limiter) press(ctx context.Context, r *request, p *part) {
	switch {
	case p.err == nil:
	case errors.Is(p.err, ErrItemThrottled):
		l.pressThrottled(ctx, r, p)
	case busy(p.err) && !r.look:
		l.signal(r.now, p.charges, false)
	}
}

// pressThrottled finds out what an item is whose write was throttled. DynamoDB throttles
// partitions, so it may be that of a quiet subject with a hot neighbour. Reads have a capacity of
// their own: the item's state may refuse, and is then the answer. If others charge it meanwhile,
// or this environment knows it as strained, it is the hot one. A few more attempts follow; if
// they are throttled too, the hot subject is busy, and on_error decides for the quiet one.
func (l *Limiter) pressThrottled(ctx context.Context, r *request, p *part) {
	throttled := p.err
	quietly := func() {
		p.err = fmt.Errorf("%w: %w: %w: %s", ErrUnavailable, ErrThrottled, errQuiet, throttled.Error())
	}
	switch {
	case r.look:
		quietly()
		return
	case p.shadow():
		l.signal(r.now, p.charges, true)
		return
	}
	hot, crowd := l.hot(r.now, p), l.throttledLately(r.now, p.charges[0].Subject)
	if crowd >= several && !hot {
		quietly()
		return
	}
	busy, last, unread := hot, false, false
	var before []Result
	for try := range tries + 1 {
		if !hot {
			refuses, err := l.inspect(ctx, r, p)
			switch {
			case err != nil: // its reads are throttled too, or there is no more time
				unread = unread || errors.Is(err, ErrItemThrottled)
			case refuses:
				l.refuse(r.now, p)
				return
			case before == nil:
				before = slices.Clone(p.results)
			default:
				hot = !slices.Equal(before, p.results)
			}
		}
		busy = busy || hot
		if try == tries {
			break
		}
		if hot && last {
			break
		}
		last = hot // leases will help, and not more attempts
		if l.take(ctx, r.now, p); !errors.Is(p.err, ErrItemThrottled) {
			if hot {
				l.signal(r.now, p.charges, false)
			}
			return
		}
	}
	switch {
	case !busy:
		if unread { // once it may be a quiet one; if it comes again soon it is the hot one
			l.signal(r.now, p.charges, false)
		}
		quietly()
		return
	case before == nil: // known as hot, and not read yet
		if refuses, err := l.inspect(ctx, r, p); err == nil && refuses {
			l.refuse(r.now, p)
			return
		}
	}
	l.signal(r.now, p.charges, true)
}

// refuse answers p by the state that was read.
func (l *Limiter) refuse(now algo.Instant, p *part) {
	p.err, p.taken = nil, false
	l.denials.remember(now, p.charges[0].Subject, p.charges, p.results, false)
}

// hot reports whether this environment knows the subject of p as strained, or has other requests on
// it that wait for this one.
func (l *Limiter) hot(now algo.Instant, p *part) bool {
	if l.groups.waited(p.charges[0].Subject) {
		return true
	}
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	return l.accounts.strain(now, p.charges[0].Subject, p.charges[0].Limit) != nil
}

// inspect reads the item of p, and reports whether it refuses.
func (l *Limiter) inspect(ctx context.Context, r *request, p *part) (refuses bool, err error) {
	looks := slices.Clone(p.charges)
	for i := range looks {
		looks[i].Cost = 0
	}
	_, calls, err := l.ask(ctx, r.now, looks[0].Subject, looks, p.results)
	if p.calls += calls; err != nil {
		return false, err
	}
	return p.refuser(r.now) != nil, nil
}

// throttledLately notes that subject was throttled at now, and returns how many were within a second.
func (l *Limiter) throttledLately(now algo.Instant, subject Subject) (n int) {
	s := l.accounts
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := 0
	for i, t := range s.throttled {
		if t.subject == subject {
			oldest = i
			break
		}
		if t.at < s.throttled[oldest].at {
			oldest = i
		}
	}
	s.throttled[oldest] = throttling{subject, now}
	for _, t := range s.throttled {
		if now.Sub(t.at).Abs() < time.Second {
			n++
		}
	}
	return n
}
