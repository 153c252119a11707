package resilient

import (
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// ConnectionLife is how long an idle connection counts as usable. Clients of a store SHOULD close idle
// connections after this time. Lambda freezes a process between two events. If the server closes a
// connection meanwhile, the process notices this only at the next request.
const ConnectionLife = 5 * time.Second

// rare is the minimum time between a failed call and a call that gets time to connect. An earlier call
// does not get this time, because the client opens a connection in the background.
const rare = time.Second

// deadlines decides how long a decision may wait for a store whose connections may be gone.
type deadlines struct {
	reconnect, first time.Duration

	begun   atomic.Bool  // a decision has called the method timeout at least once
	last    atomic.Int64 // instant of the last call that began after the field begun was set; 0 if none
	failing atomic.Bool  // the last call had no answer
}

// timeout returns what limiter.Remote.ConnectTimeout returns. A client closes the connection of a failed call, so the next call may have to
// connect.
func (d *deadlines) timeout(now algo.Instant) time.Duration {
	last := d.last.Load()
	if last == 0 {
		d.begun.Store(true)
		return d.first
	}
	switch pause := now.Sub(algo.Instant(last)).Abs(); {
	case pause >= ConnectionLife, pause >= rare && d.failing.Load():
		return d.reconnect
	}
	return 0
}

// observe records the result of a call at the instant now. It ignores calls before the first decision: they
// only open connections in advance.
func (d *deadlines) observe(now algo.Instant, err error) {
	if !d.begun.Load() {
		return
	}
	d.failing.Store(!limiter.Answered(err))
	d.last.Store(int64(now))
}
