package resilient

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// trusted is the age up to which Debit trusts a connection. The client may close it soon after.
const trusted = RegionConnectionLife * 5 / 6

// mostLines is the number of idle connections that the HTTP client of the AWS SDK keeps for a host.
const mostLines = 10

// lines are the connections that Debit knows to be open. Over HTTP/1.1, each call needs one of its own. So the nth debit of
// those that run at a time uses the nth line, and a line is open if n debits at a time have had answers. The zero value is
// ready for use.
type lines struct {
	mu      sync.Mutex
	running int // debits
	all     [mostLines]line
}

type line struct {
	answered algo.Instant // when the store last answered over it; 0 if it may be closed
	opening  *opening     // the look that opens it; nil if none runs
}

// opening is a look that opens a line. The other fields are valid when ended is closed.
type opening struct {
	began time.Time
	ended chan struct{}
	found algo.Result
	err   error
}

// enter returns the line of a debit that begins. The method leave MUST follow.
func (ls *lines) enter() *line {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.running++
	return &ls.all[min(ls.running, mostLines)-1]
}

func (ls *lines) leave() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.running--
}

func (ls *lines) open(l *line, now algo.Instant) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.answered != 0 && now.Sub(l.answered).Abs() < trusted
}

// used records the result of a call over l at the instant now. The client closes the connection of a call without an answer.
func (ls *lines) used(l *line, now algo.Instant, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.answered = 0; limiter.Answered(err) {
		l.answered = now
	}
}

// look returns the look that opens l. If own is true, the caller makes it.
func (ls *lines) look(l *line) (o *opening, own bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if own = l.opening == nil; own {
		l.opening = &opening{began: time.Now(), ended: make(chan struct{})}
	}
	return l.opening, own
}

// ended records the end of the look o over l.
func (ls *lines) ended(l *line, now algo.Instant, o *opening) {
	ls.used(l, now, o.err)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.opening = nil
	close(o.ended)
}
