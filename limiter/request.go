package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// requests are reused, with their slices.
var requests = sync.Pool{New: func() any { return new(request) }}

// request is one decision in progress.
type request struct {
	limiter *Limiter
	at      time.Time
	now     algo.Instant
	look    bool // charge nothing
	receipt bool // what is charged may be refunded
	spread  bool // a limit has a Spread

	items   []item // as they come
	kept    []kept // decided by accounts of this process
	grouped []item // for stores, by subject, in order of first appearance
	charges []Charge
	results []algo.Result // one per charge
	parts   []part

	ctx    context.Context // with the deadline, once there is one
	cancel context.CancelFunc

	asks     []*account // accounts that wait for the store call of this request
	waited   *account   // whose answer this request waited for
	unsynced *item      // its account has to synchronize, and failed to
	unasked  error      // the reason

	begun     time.Time // of the charge of stores; zero if no refund can follow
	overshoot int64
	stored    time.Duration // waited for a shared store
	calls     int           // of a shared store, without those of parts
	refunds   Refunds
	clamped   int
	failure   error // of the store of a counter that decided by itself
	failed    bool  // denied because a store failed
	full      bool  // and the fallback has no room for the subject
}

// begin prepares r for a decision of charges.
func (r *request) begin(l *Limiter, now time.Time, charges []Charge) {
	*r = request{limiter: l, at: now, now: algo.InstantOf(now), look: r.look, items: r.items[:0], kept: r.kept[:0],
		grouped: r.grouped[:0], charges: r.charges[:0], results: r.results[:0], parts: r.parts[:0], asks: r.asks[:0]}
	l.active.Add(1)
	for _, c := range charges {
		it := item{Charge: c, limit: c.Limit, want: c.Cost}
		if c.Limit.Shadow {
			it.Subject = c.Limit.counted(c.Subject)
		}
		if r.look {
			it.Cost = 0
		}
		switch {
		case c.Limit.Spread.Cells > 0:
			it.cells, it.Limit = true, c.Limit.parts[0]
		case c.Limit.Spread.Shards > 0 && l.shares():
			it.sharded = true
		}
		r.spread = r.spread || c.Limit.Spread != Spread{}
		r.items = append(r.items, it)
	}
}

// end releases what r holds, also if a store panics.
func (r *request) end() {
	r.limiter.active.Add(-1)
	if r.cancel != nil {
		r.cancel()
	}
	if len(r.asks) > 0 {
		r.limiter.accounts.mu.Lock()
		defer r.limiter.accounts.mu.Unlock()
		r.wake()
	}
}

// deadline returns ctx with the deadline of the decision. It begins when the decision first waits
// for a shared store.
func (r *request) deadline(ctx context.Context) context.Context {
	l := r.limiter
	if r.ctx == nil {
		r.ctx = ctx
		if l.timeout > 0 {
			timeout := l.timeout
			if l.connector != nil {
				timeout = max(timeout, l.connector.ConnectTimeout(r.now))
			}
			r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		}
	}
	return r.ctx
}

// denied reports whether the request is denied, as far as it is decided.
func (r *request) denied() bool { return r.failed || r.refused() }

// refused reports whether a limit that is enforced refuses the request, or a subject is busy.
func (r *request) refused() bool {
	for i := range r.parts {
		if p := &r.parts[i]; (p.refused || busy(p.err)) && !p.shadow() {
			return true
		}
	}
	for i := range r.kept {
		if k := &r.kept[i]; !k.allowed && !k.item.limit.Shadow {
			return true
		}
	}
	return false
}

// takeBack undoes the charges of accounts and keeps their answers. The caller holds the lock of the
// accounts.
func (r *request) takeBack() {
	for i := range r.kept {
		r.kept[i].undo()
	}
}

// wake wakes the requests that wait for accounts of r. The caller holds their lock.
func (r *request) wake() {
	for _, a := range r.asks {
		a.answered()
	}
	r.asks = r.asks[:0]
}
