package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// serveRounds is how often a request waits for other requests that renew its accounts. After that it
// calls the store itself.
const serveRounds = 4

// kept is a charge that an account of this process decided.
type kept struct {
	item    *item
	account *account
	allowed bool
	result  algo.Result // after the charge, or what refused it
	taken   local.Taken // from the counter
	serial  int64       // of the lease
	undone  bool        // the charge was taken back
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

// serve decides items from their accounts where possible. An item with a used-up lease remains: its
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

// try decides all items that accounts decide, or none. If it decides none, it returns the account
// to wait for, or an item whose counter this request has to synchronize.
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
		case r.look && !a.counter.Known():
			continue // the store decides
		case r.look:
			k.allowed, k.result = a.counter.Look(r.now, it.want, it.Force)
		case !serves && r.spreads(it) && a.lost(r):
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
			s.renew(r.now, a, it)
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

// use serves the item from a lease.
func (k *kept) use(now algo.Instant) {
	l := &k.account.lease
	l.Used += k.item.want
	k.allowed, k.result, k.serial, k.item.spare = true, l.Result, l.Serial, l.Left(now)
}

// undo takes the charge back, if the account still holds the lease or the count that was charged.
func (k *kept) undo() Refunds {
	nothing := !k.allowed || k.item.Cost == 0 || k.undone
	k.undone = true
	switch {
	case nothing:
		return Refunds{}
	case k.item.limit.Spread.counted():
		if !k.account.counter.Undo(k.taken) {
			return Refunds{Dropped: 1}
		}
	case k.account.lease.Serial == k.serial:
		k.account.lease.Used -= k.item.want
	default:
		return Refunds{Dropped: 1}
	}
	return Refunds{Given: 1}
}

// takeBack undoes the charges of accounts and keeps their answers. The caller holds the lock of the
// accounts.
func (r *request) takeBack() {
	for i := range r.kept {
		r.kept[i].undo()
	}
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

// sync synchronizes the counter of an item with the store. It charges the store with the pending
// count, past the limit if necessary. It returns false if the store failed and the counter may not
// decide by itself; then the item has failed.
func (r *request) sync(ctx context.Context, it *item) bool {
	l := r.limiter
	l.accounts.mu.Lock()
	a := l.accounts.of(r.now, it.Subject, it.limit)
	out := a.counter.Report(r.now)
	l.accounts.mu.Unlock()

	charges := a.limit.reportCharges(it.Subject, out)
	results := make([]algo.Result, len(charges))
	calls, err := 1, ErrUnavailable // if the store panics
	defer func() {
		l.accounts.mu.Lock()
		defer l.accounts.mu.Unlock()
		if err == nil {
			r.overshoot = max(r.overshoot, a.counter.Reported(r.now, out, results, l.intN))
		} else {
			a.counter.Unreported(r.now, out, calls > 0 && mayHaveCharged(err), busy(err), l.intN)
		}
		a.failed = err
		a.answered()
	}()
	asked := time.Now()
	_, calls, err = l.ask(r.deadline(ctx), out.At, it.Subject, charges, results)
	r.calls += calls
	r.stored += time.Since(asked)
	if err == nil {
		r.clamped += clamped(charges, results)
	} else {
		r.outlive(it)
	}
	switch {
	case err == nil, busy(err) && (it.limit.reports != nil || a.counter.Known()):
	case !a.counter.Known() || !it.alone():
		r.unsynced, r.unasked = it, err
		return false
	case it.limit.Shadow:
		l.log.failure(ctx, r.now, err)
	}
	return true
}

// alone reports whether a counter may continue by itself while the store fails. It then has all of
// the limit, so it may not if processes divide the limit.
func (i *item) alone() bool {
	l := i.limit
	return l.Shadow || l.OnError == OnErrorAllow || l.OnError == OnErrorLocal && l.LocalProcesses == 1
}
