package resilient

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// trusted is the age up to which Debit trusts a connection. The client may close it soon after.
const trusted = RegionConnectionLife * 5 / 6

// mostConnections is the number of idle connections that the HTTP client of the AWS SDK keeps for a host.
const mostConnections = 10

// debitConnections are the connections of debits. Over HTTP/1.1, each call needs a connection of its own. So the nth debit that
// runs at a time uses the nth of them, which is open if n debits at a time had answers. The zero value is ready for use.
type debitConnections struct {
	mu      sync.Mutex
	running int // debits
	all     [mostConnections]debitConnection
}

type debitConnection struct {
	answered algo.Instant // when the store last answered over it; 0 if it may be closed
	opening  *opening     // the look that opens it; nil if none runs
}

// opening is a look that opens a connection. The other fields are valid when ended is closed.
type opening struct {
	began time.Time
	ended chan struct{}
	found algo.Result
	err   error
}

// enter returns the connection of a debit that begins. The method leave MUST follow.
func (cs *debitConnections) enter() *debitConnection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.running++
	return &cs.all[min(cs.running, mostConnections)-1]
}

func (cs *debitConnections) leave() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.running--
}

func (cs *debitConnections) open(c *debitConnection, now algo.Instant) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return c.answered != 0 && now.Sub(c.answered).Abs() < trusted
}

// used records the result of a call over c at the instant now. The client closes the connection of a call without an answer.
func (cs *debitConnections) used(c *debitConnection, now algo.Instant, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.answered = 0
	if limiter.Answered(err) {
		c.answered = now
	}
}

// look returns the look that opens c. If own is true, the caller makes it.
func (cs *debitConnections) look(c *debitConnection) (o *opening, own bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	own = c.opening == nil
	if own {
		c.opening = &opening{began: time.Now(), ended: make(chan struct{})}
	}
	return c.opening, own
}

// ended records the end of the look o over c.
func (cs *debitConnections) ended(c *debitConnection, now algo.Instant, o *opening) {
	cs.used(c, now, o.err)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.opening = nil
	close(o.ended)
}
