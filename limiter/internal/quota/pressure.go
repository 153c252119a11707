package quota

import (
	"math/bits"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Pressure measures how often this process fails to charge a limit of a subject, because requests come
// faster than the store can write the item. Each failure doubles the level. The level halves every
// pressureLife, unless leases still save calls. The zero value means no pressure.
//
// A leasable limit under pressure takes leases; the level bounds the number of requests in a lease. For
// any other limit, the process makes no call for a while after a throttled call. The pause grows with
// the level.
type Pressure struct {
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

// Current returns the level at the instant now; 0 or 1 is no pressure.
func (p *Pressure) Current(now algo.Instant) int64 {
	return p.level >> min(62, max(0, now.Sub(p.at))/pressureLife)
}

// Raise doubles the level of a hot subject.
func (p *Pressure) Raise(now algo.Instant) {
	p.level, p.at, p.hot = min(2*max(1, p.Current(now)), maxPressure), now, now
}

// Pause starts a pause of random length. It is short if leases save most calls.
func (p *Pressure) Pause(now algo.Instant, leasesHelp bool, intN func(int) int) {
	level := p.level
	if leasesHelp {
		level /= 32
	}
	most := min(time.Duration(level)*pausePerLevel, maxPause)
	p.pausedUntil = now.Add(most/2 + time.Duration(intN(int(most/2)+1)))
}

// Paused reports whether a pause lasts at the instant now.
func (p *Pressure) Paused(now algo.Instant) bool {
	return p.pausedUntil > now && p.pausedUntil.Sub(now) <= maxPause
}

// Hot reports whether this process has recently seen that requests of the subject make its item busy.
func (p *Pressure) Hot(now algo.Instant) bool {
	return now.Sub(p.hot).Abs() < pressureLife
}

// Raised reports whether there was pressure before.
func (p *Pressure) Raised() bool { return p.level > 1 }

// Set sets the level at the instant now. It changes neither the pause nor the result of Hot.
func (p *Pressure) Set(now algo.Instant, level int64) { p.level, p.at = level, now }

// End returns the instant at which the level is 0, unless it changes before.
func (p *Pressure) End() algo.Instant {
	return p.at.Add(time.Duration(bits.Len64(uint64(p.level))) * pressureLife)
}
