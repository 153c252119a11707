package resilient

import (
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// ConnectionLife is how long an idle connection counts as usable. Clients of a store SHOULD drop
// idle connections after this time: Lambda freezes a process between two events, so a connection
// that the server closed meanwhile is noticed only by the next request.
const ConnectionLife = 5 * time.Second

// rare is the time since a failed call after which the next call may have to connect. In an
// outage, calls that follow faster have no time for it: connections open beside them.
const rare = time.Second

// deadlines decides how long a decision may wait for a store whose connections may be gone.
type deadlines struct {
	reconnect, first time.Duration

	begun   atomic.Bool  // a decision has asked for its deadline
	last    atomic.Int64 // instant of the last call since then; 0: none yet
	failing atomic.Bool  // it was not answered
}

// timeout implements limiter.Connector. A call after a rare failure may have to connect because
// the failed call took its connection with it.
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

// observe records how a call at now ended. Calls before the first decision, which only warm the
// process up, do not count.
func (d *deadlines) observe(now algo.Instant, err error) {
	if !d.begun.Load() {
		return
	}
	d.failing.Store(!limiter.Answered(err))
	d.last.Store(int64(now))
}
