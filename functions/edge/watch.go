package edge

import (
	"sync"
	"time"
)

// Watch finds the callers to list. The process has refused such a caller from memory at least least times within span, and
// the wait is at least twice the time until a new entry acts. A Watch lists ten callers at once, and then one in each such
// time. This is enough for each wait of two callers, and a flood from many addresses causes few calls of the list. It is
// safe for concurrent use.
type Watch struct {
	delay time.Duration

	mu      sync.Mutex
	callers map[string]*watched
	cleared time.Time // when it last removed callers
	paid    time.Time // when it could again list atOnce callers
}

type watched struct {
	since    time.Time // of the first refusal that counts
	refusals int
	quiet    time.Time // end of the time in which the caller is not listed again
}

// RelistAfter is the time after which a caller that is still refused from memory is listed again, because a reset may have
// removed its entry.
const RelistAfter = 30 * time.Second

const (
	least = 20
	span  = 10 * time.Second
	// atOnce is the number of callers that it lists without a pause.
	atOnce = 10
	// maxWatched bounds the memory. If a flood has more callers, the others are not listed.
	maxWatched = 4096
)

// NewWatch returns a Watch. delay is the time until a new entry acts.
func NewWatch(delay time.Duration) *Watch {
	return &Watch{delay: delay, callers: map[string]*watched{}}
}

// Refused counts a refusal from memory at the time now, and reports whether the caller must be listed until the end of
// its wait. It reports this once for each wait, and again after RelistAfter.
func (w *Watch) Refused(now time.Time, subject string, until time.Time) bool {
	if until.Sub(now) < 2*w.delay {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.callers[subject]
	switch {
	case c == nil && !w.room(now):
		return false
	case c == nil:
		c = &watched{since: now}
		w.callers[subject] = c
	case now.Sub(c.since) > span:
		c.since, c.refusals = now, 0
	}
	c.refusals++
	if c.refusals < least || !now.After(c.quiet) || !w.pay(now) {
		return false
	}
	if c.quiet = now.Add(RelistAfter); c.quiet.After(until) {
		c.quiet = until
	}
	return true
}

// pay reports whether one more caller can be listed at the time now.
func (w *Watch) pay(now time.Time) bool {
	if w.paid.Before(now) {
		w.paid = now
	}
	if w.paid.Sub(now) > (atOnce-1)*w.delay {
		return false
	}
	w.paid = w.paid.Add(w.delay)
	return true
}

// room reports whether one more caller fits. It removes callers whose refusals no longer count, also listed ones.
func (w *Watch) room(now time.Time) bool {
	if len(w.callers) < maxWatched {
		return true
	}
	if now.Sub(w.cleared) < time.Second { // each time, it looks at all callers
		return false
	}
	w.cleared = now
	for subject, c := range w.callers {
		if now.Sub(c.since) > span {
			delete(w.callers, subject)
		}
	}
	return len(w.callers) < maxWatched
}
