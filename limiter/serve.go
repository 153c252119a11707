package limiter

import (
	"context"
)

// serveRounds is how often a request waits for other requests that renew its accounts. After that it
// calls the store itself.
const serveRounds = 4

// spreads reports whether an account decides the item.
func (r *request) spreads(it *item) bool {
	s := &it.limit.Spread
	return it.want > 0 && (s.counted() || s.Lease > 1 && !it.Force && !r.look)
}

// account returns the account that decides an item; nil if none does. The caller holds the lock.
func (r *request) account(it *item) *account {
	s := r.limiter.accounts
	if r.spreads(it) {
		return s.of(r.now, it.Subject, it.limit)
	}
	if it.want > 0 && !it.Force && !r.look && it.limit.leasable() && s.strained(r.now) {
		return s.strain(r.now, it.Subject, it.limit)
	}
	return nil
}

// serve decides items from their accounts where possible. An item with a used-up lease remains: its
// charge renews the lease. A counter whose synchronization is due calls the store first. If an
// account refuses, nothing is charged.
func (r *request) serve(ctx context.Context) {
	l := r.limiter
	if !l.shares() || !r.spread && !l.accounts.strained(r.now) {
		return
	}
	for waits := 0; waits < serveRounds; {
		wait, due := r.try()
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

// try decides all items that accounts decide, or none. If it decides none, it returns the account
// to wait for, or an item whose counter this request has to synchronize.
func (r *request) try() (wait <-chan struct{}, due *item) {
	s := r.limiter.accounts
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := false
	for i := range r.items {
		it := &r.items[i]
		a := r.account(it)
		if a == nil {
			continue
		}
		k := kept{item: it, account: a}
		synchronized, serves := it.limit.Spread.counted(), a.serves(r.now, it.limit, it.want)
		switch {
		case r.look && !a.counter.Known():
			continue // the store decides
		case r.look:
			k.allowed, k.result = a.counter.Look(r.now, it.want, it.Force)
		case !serves && r.spreads(it) && a.lost(r.waited == a):
			r.unkeep()
			r.unsynced, r.unasked = it, a.failed
			return nil, nil
		case synchronized && a.asking == nil && (!serves || a.counter.Due(r.now)):
			due = it
			a.asking = make(chan struct{})
		case synchronized && serves:
			k.allowed, k.result, k.taken = a.counter.Take(r.now, it.want, it.Force)
			refused = refused || !k.allowed && !it.limit.Shadow
		case serves:
			k.use(r.now)
		case a.asking != nil && !r.spreads(it):
			continue // charged alone, like the others that do not wait
		case a.asking != nil:
			wait, r.waited = a.asking, a
		default:
			it.lease, it.size = a, s.renew(r.now, a, it.want)
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

// unkeep undoes the charges of accounts and drops their answers. The caller holds the lock.
func (r *request) unkeep() {
	r.takeBack()
	for i := range r.kept { // the next round charges them again
		if k := &r.kept[i]; !k.allowed && !r.look {
			k.account.counter.Repeat(k.item.want)
		}
	}
	for i := range r.items {
		r.items[i].done, r.items[i].lease, r.items[i].spare = false, nil, 0
	}
	r.kept, r.failure = r.kept[:0], nil
}
