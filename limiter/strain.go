package limiter

import (
	"fmt"
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
