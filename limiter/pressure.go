package limiter

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// pressure measures how often this process fails to charge a limit of a subject, because requests come
// faster than the store can write the item. Each failure doubles the level. The level halves every
// pressureLife, unless leases still save calls. The zero value means no pressure.
//
// A leasable limit under pressure takes leases; the level bounds the number of requests in a lease. For
// any other limit, the process makes no call for a while after a throttled call. The pause grows with
// the level.
type pressure struct {
	level       int64        // value after the last rise: 2, 4, 8 ...
	at          algo.Instant // instant of the last rise
	hot         algo.Instant // when this process last saw that requests of the subject make its item busy
	pausedUntil algo.Instant // the process makes no call before this instant
}

// maxPressure bounds the level of pressure, and pressureLife is the time in which the level halves. The
// level bounds a lease, and so does half of the remaining quota of the limit.
const (
	maxPressure  = 1 << 20
	pressureLife = 4 * time.Second
)

// A pause takes at most pausePerLevel times the level, and at most maxPause.
const (
	pausePerLevel = 250 * time.Millisecond
	maxPause      = 3 * time.Second
)

// The first lease after a throttled call holds at most firstLease requests and at most 1/firstLeasePart
// of the remaining quota. It is small, because possibly another subject makes the partition hot.
const (
	firstLease     = 4
	firstLeasePart = 256
)

// errPaused means that no call was made, because the item of the subject is busy.
var errPaused = fmt.Errorf("%w: %w: paused after throttled calls", ErrUnavailable, ErrItemThrottled)

// current returns the level at now; 0 or 1 is no pressure.
func (p *pressure) current(now algo.Instant) int64 {
	return p.level >> min(62, max(0, now.Sub(p.at))/pressureLife)
}

// raise doubles the level of a hot subject.
func (p *pressure) raise(now algo.Instant) {
	p.level, p.at, p.hot = min(2*max(1, p.current(now)), maxPressure), now, now
}

// pause starts a pause of random length. It is short if leases save most calls.
func (p *pressure) pause(now algo.Instant, leasesHelp bool, intN func(int) int) {
	level := p.level
	if leasesHelp {
		level /= 32
	}
	most := min(time.Duration(level)*pausePerLevel, maxPause)
	p.pausedUntil = now.Add(most/2 + time.Duration(intN(int(most/2)+1)))
}

// leasable reports whether a process under pressure may take requests of l in advance. These limits are
// not leasable: a log records the instant of each request, a slot belongs to one request, a leaky bucket
// spaces requests, and a lease of a shallow bucket leaks before it is used. A limit with a Spread is not leasable either, because the
// Spread alone decides how it uses the store.
func (l *Limit) leasable() bool {
	if _, ok := l.machine.(*algo.Bucket); ok && l.leaseGrace() < minGrace {
		return false
	}
	return l.Spread == Spread{} && l.Rate.Algorithm != algo.SlidingLog && !l.concurrent()
}

// leasesHelp reports whether leases of l can be large enough to save most writes.
func (l *Limit) leasesHelp() bool {
	return l.leasable() && l.machine.Capacity() >= firstLease*firstLeasePart
}

// A bucket's lease under pressure begins to leak after a grace, which is 1/gracePart of the bucket's
// depth. Therefore, the bucket exceeds its burst by at most this part, 1 %, at any time. If this grace is
// below minGrace, a lease would save no call.
const (
	gracePart = 100
	minGrace  = 100 * time.Millisecond
)

// leaseGrace returns how long a lease of l keeps all of its quota; 0 for Spread.Lease.
func (l *Limit) leaseGrace() time.Duration {
	bucket, ok := l.machine.(*algo.Bucket)
	if !ok || l.Spread.Lease > 0 || l.Rate.Algorithm == algo.LeakyBucket {
		return 0
	}
	return min(local.LeaseLife, bucket.Depth/gracePart)
}
