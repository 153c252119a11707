package limiter

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// transfers are the transfers of share that this process makes or made recently: at most one at a time for a limit of a
// subject. Requests that need the same share wait for it. The zero value is ready for use.
type transfers struct {
	mu    sync.Mutex
	all   map[transferKey]*transfer
	swept algo.Instant
}

type transferKey struct {
	subject Subject
	limit   *Limit
}

// transfer is the running or the last transfer to one limit of a subject.
type transfer struct {
	running chan struct{} // closed when the transfer ends; nil if none runs
	moved   bool          // the last transfer moved share
	// elsewhere reports that another region may have share that the last transfer could not get in time.
	elsewhere bool
	until     algo.Instant            // the next transfer begins at this instant at the earliest
	lost      [algo.MaxRegions]lostAt // debits without an answer
}

// lostAt is the window in which the debit of a region had no answer. The region is not asked again in this window.
type lostAt struct {
	known bool
	index int64
}

// transferPause is the time after a transfer that moved nothing, until the next one. In a window of less than ten seconds,
// it is a tenth of the window.
const transferPause = time.Second

// mostTransfers bounds the memory for transfers. If it is full of recent ones, further limits move no share.
const mostTransfers = 10_000

// begin returns the transfer of a key. first reports whether the caller makes it, and then MUST call end. Otherwise the
// caller waits for t.running, if it is not nil. If it is nil, the last transfer was too recent for another one. t is nil
// if there is no room.
func (ts *transfers) begin(now algo.Instant, key transferKey) (t *transfer, running <-chan struct{}, first bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t = ts.all[key]
	switch {
	case t == nil && !ts.room(now):
		return nil, nil, false
	case t == nil:
		t = &transfer{}
		key.subject = key.subject.clone() // the subject can share memory with a large request text
		ts.all[key] = t
	case t.running != nil:
		return t, t.running, false
	case now < t.until && t.until.Sub(now) <= transferPause: // a longer pause means that the clock was set back
		return t, nil, false
	}
	t.running = make(chan struct{})
	return t, t.running, true
}

// end ends a transfer to a limit of this window.
func (ts *transfers) end(now algo.Instant, window time.Duration, t *transfer, moved, elsewhere bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.moved, t.elsewhere = moved, elsewhere; !moved {
		t.until = now.Add(min(transferPause, window/10))
	}
	close(t.running)
	t.running = nil
}

// result returns the result of the last transfer.
func (ts *transfers) result(t *transfer) (moved, elsewhere bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return t.moved, t.elsewhere
}

// room makes room for one transfer, and reports whether there is some. The caller holds the lock.
func (ts *transfers) room(now algo.Instant) bool {
	if ts.all == nil {
		ts.all = map[transferKey]*transfer{}
	}
	if age := now.Sub(ts.swept); len(ts.all) < mostTransfers || age >= 0 && age < transferPause {
		return len(ts.all) < mostTransfers
	}
	ts.swept = now
	for key, t := range ts.all {
		if t.running == nil && t.until <= now {
			delete(ts.all, key)
		}
	}
	return len(ts.all) < mostTransfers
}
