package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// serveRounds is how often a request waits for other requests that renew its accounts. After that it
// calls the store itself.
const serveRounds = 4

// kept is a charge that an account of this environment decided.
type kept struct {
	item          *item
	account       *account
	allowed       bool
	result        algo.Result // after the charge, or what refused it
	serial        int64       // of the lease, or the epoch of the counter
	before, after states
	undone        bool // the charge was taken back
}

// spreads reports whether an account decides the item.
func (r *request) spreads(it *item) bool {
	s := &it.limit.Spread
	return it.want > 0 && (s.counted() || s.Lease > 1 && !it.Force && !r.look)
}

// account returns the account that decides an item; nil if none does. The caller holds the lock.
func (s *accounts) account(r *request, it *item) *account {
	if r.spreads(it) {
		return s.of(r.now, it.Subject, it.limit)
	}
	if it.want > 0 && !it.Force && !r.look && it.limit.leasable() && s.strained(r.now) {
		return s.strain(r.now, it.Subject, it.limit)
	}
	return nil
}

// serve decides from accounts what they can decide. Items whose lease is used up remain: their
// charge renews the lease. A counter whose synchronization is due calls the store first. If an
// account refuses, nothing is charged.
func (r *request) serve(ctx context.Context) {
	l := r.limiter
	if !l.shares() || !r.spread && !l.accounts.strained(r.now) {
		return
	}
	for waits := 0; waits < serveRounds; {
		wait, due := l.accounts.try(r)
		switch {
		case wait != nil:
			waits++
			select {
			case <-wait:
			case <-r.deadline(ctx).Done():
				return
			}
		case due != nil:
			if !r.sync(ctx, due) {
				return
			}
		default:
			return
		}
	}
}

// try decides all spread items, or none: it returns what to wait for, or an item whose
// counter has to be synchronized by this request.
func (s *accounts) try(r *request) (wait <-chan struct{}, due *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := false
	for i := range r.items {
		it := &r.items[i]
		a := s.account(r, it)
		if a == nil {
			continue
		}
		k := kept{item: it, account: a}
		synchronized, serves := it.limit.Spread.counted(), a.serves(r.now, it)
		switch {
		case r.look && a.counter.Machine == nil:
			continue // the store knows more
		case r.look:
			k.look(r.now)
		case !serves && r.spreads(it) && a.lost(r):
			r.unkeep()
			r.unsynced, r.unasked = it, a.failed
			return nil, nil
		case synchronized && a.asking == nil && (!serves || a.due(r.now)):
			due = it
			a.asking = make(chan struct{})
		case synchronized && serves:
			k.count(r.now)
			refused = refused || !k.allowed && !it.limit.Shadow
		case serves:
			k.use(r.now)
		case a.asking != nil && !r.spreads(it):
			continue // charged for itself, with others who do not wait either
		case a.asking != nil:
			wait, r.waited = a.asking, a
		default:
			it.lease, it.size = a, a.next(r.now, it)
			continue
		}
		if wait != nil || due != nil {
			r.unkeep()
			return wait, due
		}
		if synchronized && a.failed != nil && !it.limit.Shadow {
			r.failure = a.failed
		}
		it.done = true
		r.kept = append(r.kept, k)
	}
	if refused {
		r.takeBack()
		return nil, nil
	}
	for i := range r.items {
		if it := &r.items[i]; it.lease != nil {
			it.lease.asking = make(chan struct{})
			r.asks = append(r.asks, it.lease)
		}
	}
	return nil, nil
}

// look tells what count would.
func (k *kept) look(now algo.Instant) {
	k.result = k.account.counter.Result
	if p := k.account.portion; p != nil && (!p.strict || k.result.RetryAfter(now, k.item.want) == 0) {
		k.result = p.Result
	}
	k.allowed = k.item.Force || k.result.RetryAfter(now, k.item.want) == 0
}

// count charges a counter and, if it is adaptive, the share of this environment.
func (k *kept) count(now algo.Instant) {
	c, p := &k.account.counter, k.account.portion
	k.before, k.serial = k.account.states(), c.epoch
	if p == nil {
		k.allowed = c.take(now, k.item.want, k.item.Force)
		k.after, k.result = k.account.states(), c.Result
		return
	}
	k.allowed = p.take(now, k.item.want, k.item.Force)
	if k.allowed && !c.take(now, k.item.want, k.item.Force || !p.strict) {
		k.allowed, k.result, p.State = false, c.Result, k.before.share
		return
	}
	k.after, k.result = k.account.states(), p.Result
}

// use serves the item from a lease.
func (k *kept) use(now algo.Instant) {
	l := &k.account.lease
	l.used += k.item.want
	k.allowed, k.result, k.serial, k.item.spare = true, l.Result, l.serial, l.left(now)
}

// undo takes the charge back, if the account is still what was charged.
func (k *kept) undo() Refunds {
	nothing := !k.allowed || k.item.Cost == 0 || k.undone
	k.undone = true
	switch {
	case nothing:
		return Refunds{}
	case k.item.limit.Spread.counted():
		if !k.account.counter.undo(k.serial, k.before, k.after, k.item.want) {
			return Refunds{Dropped: 1}
		}
		if p := k.account.portion; p != nil {
			p.undo(k)
		}
	case k.account.lease.serial == k.serial:
		k.account.lease.used -= k.item.want
	default:
		return Refunds{Dropped: 1}
	}
	return Refunds{Given: 1}
}

// takeBack undoes what accounts were charged, and leaves what they have to say. The
// caller holds the lock of the accounts.
func (r *request) takeBack() {
	for i := range r.kept {
		r.kept[i].undo()
	}
}

// unkeep undoes what accounts were charged, as if they had not been asked.
func (r *request) unkeep() {
	r.takeBack()
	for i := range r.kept { // they will be asked for again
		if k := &r.kept[i]; !k.allowed && k.account.portion != nil && !r.look {
			k.account.portion.unask(k.item.want)
		}
	}
	for i := range r.items {
		r.items[i].done, r.items[i].lease, r.items[i].spare = false, nil, 0
	}
	r.kept, r.failure = r.kept[:0], nil
}

// sync brings the counter of it together with the store: what is pending is charged,
// past the limit if need be. It reports false if the store failed and the counter knows
// nothing, or is not to go on by itself: then the item has failed.
func (r *request) sync(ctx context.Context, it *item) bool {
	l := r.limiter
	l.accounts.mu.Lock()
	a := l.accounts.of(r.now, it.Subject, it.limit)
	out := a.report(r.now, it.Subject)
	l.accounts.mu.Unlock()

	results := make([]algo.Result, len(out.charges))
	calls, err := 1, ErrUnavailable // if the store panics
	defer func() {
		l.accounts.mu.Lock()
		defer l.accounts.mu.Unlock()
		if err == nil {
			r.overshoot = max(r.overshoot, a.reported(r.now, out, results, l.intN))
		} else {
			a.unreported(r.now, out, calls > 0 && mayHaveCharged(err), busy(err), l.intN)
		}
		a.failed = err
		a.answered()
	}()
	asked := time.Now()
	_, calls, err = l.ask(r.deadline(ctx), out.at, it.Subject, out.charges, results)
	r.calls += calls
	r.stored += time.Since(asked)
	if err == nil {
		r.clamped += clamped(out.charges, results)
	} else {
		l.outlive(r.now, it)
	}
	switch {
	case err == nil, busy(err) && (a.portion != nil || a.counter.Machine != nil):
	case a.counter.Machine == nil || !it.alone():
		r.unsynced, r.unasked = it, err
		return false
	case it.limit.Shadow:
		l.logFailure(ctx, r.now, err)
	}
	return true
}

// alone reports whether a counter may go on by itself while the store fails. It has all of the
// limit then, so not where the limit is divided among processes.
func (i *item) alone() bool {
	l := i.limit
	return l.Shadow || l.OnError == OnErrorAllow || l.OnError == OnErrorLocal && l.LocalProcesses == 1
}
