package regions

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// transfers are the transfers of share that this process makes or made recently: at most one at a time for a limit of a
// subject. Requests that need the same share wait for it. The zero value is ready for use.
type transfers struct {
	mu    sync.Mutex
	all   map[transferKey]*transfer
	swept algo.Instant
}

type transferKey struct {
	subject domain.Subject
	limit   *domain.Limit
}

// transfer is the running or the last transfer to one limit of a subject.
type transfer struct {
	running chan struct{} // closed when the transfer ends; nil if none runs
	moved   bool          // the last transfer moved share
	// elsewhere reports that another region can have share that the last transfer did not get.
	elsewhere bool
	until     algo.Instant // the next transfer begins at this instant at the earliest
	ended     algo.Instant
	unmet     int64                   // what the requests lack that waited, and still lack after the last transfer
	lost      [algo.MaxRegions]lostAt // debits without an answer
	seen      []algo.Result           // the states that the stores of the other regions last returned
}

// need is what a request lacks of a limit, and what a transfer did about it.
type need struct {
	amount    int64 // what the request lacks
	wanted    int64 // what this and other waiting requests lack
	transfer  *transfer
	running   <-chan struct{} // closed when the transfer ends
	first     bool            // this request makes the transfer
	made      bool            // it has asked other regions
	got       int64
	credited  bool
	elsewhere bool // another region can have share that it did not give
}

// lostAt is the window and the instant of a debit that had no answer.
type lostAt struct {
	known bool
	index int64
	at    algo.Instant
}

// lostPause is the time after a debit without an answer in which its region is not asked again in the same window: the next
// one could be lost too.
const lostPause = time.Minute

// pauses reports whether the region is not asked for share of the window index.
func (l lostAt) pauses(now algo.Instant, index int64) bool {
	return l.known && l.index == index && now.Sub(l.at).Abs() < lostPause
}

// pause is the time after a transfer that did not get what its request lacked, until the next one. In a window of
// less than ten seconds, it is a tenth of the window.
const pause = time.Second

// mostTransfers bounds the memory for transfers. If it is full of recent ones, further limits move no share.
const mostTransfers = 10_000

// begin sets k.first if the caller makes the transfer, and then MUST call end. Otherwise it sets k.running, for which the
// caller waits, or neither. known then reports whether k.elsewhere is the result of a recent transfer, and not unknown for
// lack of room. A request that waits for the first time adds what it lacks.
func (ts *transfers) begin(now algo.Instant, key transferKey, k *need, adds bool) (known bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.all[key]
	switch {
	case t == nil && !ts.room(now):
		return false
	case t == nil:
		t = &transfer{seen: make([]algo.Result, len(key.limit.Regions()))}
		key.subject = key.subject.Clone() // the subject can share memory with a large request text
		ts.all[key] = t
	case t.running != nil:
		k.running = t.running
		if adds {
			t.unmet += k.amount
		}
		k.transfer = t
		return true
	case now < t.until && t.until.Sub(now) <= pause: // a longer pause means that the clock was set back
		k.elsewhere = t.elsewhere
		return true
	}
	k.wanted = k.amount
	if now.Sub(t.ended).Abs() < pause {
		k.wanted = max(k.amount, t.unmet)
	}
	t.running, t.unmet = make(chan struct{}), 0
	k.transfer, k.running, k.first = t, t.running, true
	return true
}

// end ends the transfer of k to a limit of this window. It keeps the last result if the request asked nobody, because it
// gets no share of another limit.
func (ts *transfers) end(now algo.Instant, window time.Duration, k *need) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := k.transfer
	if k.made {
		t.moved, t.elsewhere = k.credited, k.elsewhere
		if !k.credited || k.got < k.amount {
			t.until = now.Add(min(pause, window/10))
		}
		t.unmet, t.ended = max(0, t.unmet+k.amount-k.got), now
	}
	close(t.running)
	t.running = nil
}

// result returns the result of the transfer for which k waited.
func (ts *transfers) result(k *need) (moved bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	k.elsewhere = k.transfer.elsewhere
	return k.transfer.moved
}

// room makes room for one transfer, and reports whether there is some. The caller holds the lock.
func (ts *transfers) room(now algo.Instant) bool {
	if ts.all == nil {
		ts.all = map[transferKey]*transfer{}
	}
	if age := now.Sub(ts.swept); len(ts.all) < mostTransfers || age >= 0 && age < pause {
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
