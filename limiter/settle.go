package limiter

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// settle hands new leases to their accounts. If the request is denied, it takes everything back
// that was charged, as far as that is safe.
func (r *request) settle(ctx context.Context) {
	denied := r.denied()
	r.returnLeases(denied)
	if denied && len(r.parts) > 1 {
		r.refundParts(ctx)
	}
}

// returnLeases hands leases that were renewed to their accounts, and wakes the requests that wait
// for them. A request that was refused uses nothing of them.
func (r *request) returnLeases(refused bool) {
	l := r.limiter
	if len(r.asks) == 0 && (!refused || len(r.kept) == 0) {
		return
	}
	l.accounts.mu.Lock()
	defer l.accounts.mu.Unlock()
	for i := range r.parts {
		p := &r.parts[i]
		for j := range p.items {
			it := &p.items[j]
			if it.lease == nil {
				continue
			}
			if it.lease.failed = p.err; !p.taken || p.lost {
				continue
			}
			used := it.want
			if refused {
				used = 0
			}
			lease := &it.lease.lease
			lease.Renew(r.now, p.results[j], p.charges[j].Cost, used)
			lease.Grace = it.limit.grace()
			it.serial, it.spare = lease.Serial, lease.Granted-used
		}
	}
	if refused {
		r.takeBack()
	}
	r.wake()
}

// refundParts refunds the parts of a request that another part refused.
func (r *request) refundParts(ctx context.Context) {
	if !slices.ContainsFunc(r.parts, func(p part) bool { return p.taken }) {
		return
	}
	ctx = r.deadline(ctx)
	elapsed, asked, remote := time.Since(r.begun), time.Now(), 0
	done := make([]Refunds, len(r.parts))
	var wg sync.WaitGroup
	for i := range r.parts {
		if back := r.parts[i].refund(); len(back.charges) > 0 {
			if back.remote {
				remote++
			}
			wg.Go(func() { done[i] = r.limiter.giveBack(ctx, r.now, back, elapsed) })
		}
	}
	wg.Wait()
	for _, d := range done {
		r.refunds.add(d)
	}
	if r.calls += remote; remote > 0 {
		r.stored += time.Since(asked)
	}
}

// refund is a charge that a store took and can refund.
type refund struct {
	store   Store
	subject Subject
	charges []Charge
	results []algo.Result
	remote  bool
}

// refund returns the charges of p that may be refunded. A lease keeps its charge, and a forced
// charge stays charged.
func (p *part) refund() refund {
	if !p.taken {
		return refund{}
	}
	back := refund{store: p.store, subject: p.charges[0].Subject, remote: p.remote}
	for i := range p.items {
		if it := &p.items[i]; it.lease == nil && !it.Force && p.charges[i].Cost > 0 {
			back.charges = append(back.charges, p.charges[i])
			back.results = append(back.results, p.results[i])
		}
	}
	return back
}

// giveBack calls the store for a refund. It drops a refund that fails, which admits fewer requests
// and never more.
func (l *Limiter) giveBack(ctx context.Context, now algo.Instant, r refund, elapsed time.Duration) Refunds {
	if r.remote { // the cached state is no longer the store's
		l.denials.Distrust(r.subject.name)
	}
	given, err := r.store.Refund(ctx, r.subject, r.charges, r.results, elapsed)
	if err != nil {
		l.log.problem(ctx, now, slog.LevelWarn, "refund dropped", err)
	}
	return Refunds{given, len(r.charges) - given}
}
