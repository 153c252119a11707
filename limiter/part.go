package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// part is the charges of one subject: one step of a store.
type part struct {
	from, to int // in the request's slices
	store    Store
	items    []item
	charges  []Charge
	results  []algo.Result
	remote   bool // what it answers is remembered
	calls    int  // of a remote store
	taken    bool
	refused  bool
	lost     bool // what leases took is not used
	skipped  bool // a shadow limit that is backed off: neither asked nor counted
	err      error
}

// shadow reports whether the part refuses nobody. Shadow limits have subjects of their
// own.
func (p *part) shadow() bool { return p.items[0].limit.Shadow }

// has reports whether the part has an item of the request.
func (p *part) has(i *item) bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.limit == i.limit && it.Subject == i.Subject })
}

// refuser returns the first limit of a part that refuses.
func (p *part) refuser(now algo.Instant) *Limit {
	for i := range p.items {
		if p.refuses(i, now) {
			return p.items[i].limit
		}
	}
	return nil
}

// refuses reports whether the state that is known of item i refuses it.
func (p *part) refuses(i int, now algo.Instant) bool {
	it, r := &p.items[i], p.results[i]
	return it.hold > 0 || !it.Force && r.Machine != nil && r.Machine.RetryAfter(r.State, now, it.want) > 0
}

// full reports whether a state that is known of the items refuses, whatever the back-off.
func (p *part) full(now algo.Instant) bool {
	for i := range p.items {
		if m := p.results[i].Machine; m != nil && m.RetryAfter(p.results[i].State, now, p.items[i].want) > 0 {
			return true
		}
	}
	return false
}

// refusedFromMemory looks up every part in memory, and reports whether one that is
// enforced is refused. Leases take no more than memory leaves room for.
func (l *Limiter) refusedFromMemory(r *request) bool {
	if l.memory == nil {
		return false
	}
	for i := range r.parts {
		p := &r.parts[i]
		if !p.remote {
			continue
		}
		if !r.look && l.resting(r.now, p) {
			p.err = errResting
			continue
		}
		if p.items[0].sharded {
			p.refused = l.pickShard(r, p)
		} else {
			p.refused = l.memory.recall(r.now, p.charges[0].Subject, p.items, p.results)
		}
		if p.refused && p.shadow() && !p.full(r.now) { // a back-off says nothing of the limit
			p.refused, p.skipped = false, true
		}
		p.size(r.now)
	}
	return r.refused()
}

// size makes the charges that renew a lease as large as the lease is to be.
func (p *part) size(now algo.Instant) {
	for i := range p.items {
		it := &p.items[i]
		if it.lease == nil {
			continue
		}
		size := it.want
		if hint := p.results[i]; hint.Machine != nil { // near the limit, leave some to others
			size = min(it.size, max(it.want, hint.Machine.Remaining(hint.State, now)/2))
		}
		p.charges[i].Cost = size
	}
}

// takeParts takes all subjects: those in this process one by one, and nothing more after
// a refusal; the others at once.
func (l *Limiter) takeParts(ctx context.Context, r *request) {
	begun, remote, refused := time.Time{}, 0, false
	if len(r.parts) > 1 || l.local != nil && l.local.holds(r.now) {
		begun = time.Now() // for its monotonic reading
	}
	var last *part
	for i := range r.parts {
		p := &r.parts[i]
		switch {
		case refused || p.refused || p.skipped || p.err != nil:
		case p.remote:
			last = p
			remote++
		default:
			l.takePart(ctx, r, p)
			refused = p.refused && !p.shadow()
		}
	}
	if !refused && remote > 0 {
		asked := time.Now()
		if remote == 1 {
			l.takePart(l.deadline(ctx, r), r, last)
		} else {
			l.takeRemote(l.deadline(ctx, r), r)
		}
		r.stored += time.Since(asked)
	}
	refused = r.refused() || l.degrade(r) || l.chargeLocally(r)
	l.settle(r, refused)
	if refused && len(r.parts) > 1 {
		l.refundRest(ctx, r, time.Since(begun))
	}
}

// takeAll takes some of the subjects of a shared store, all at once.
func (l *Limiter) takeAll(ctx context.Context, r *request, which func(*part) bool) {
	var wg sync.WaitGroup
	for i := range r.parts {
		if p := &r.parts[i]; p.remote && which(p) {
			wg.Go(func() { l.takePart(ctx, r, p) })
		}
	}
	wg.Wait()
}

// takePart takes one subject, and of a limit with shards one more if the first refuses.
func (l *Limiter) takePart(ctx context.Context, r *request, p *part) {
	l.takeOnce(ctx, r, p)
	if !p.refused || !p.remote || !p.items[0].sharded {
		return
	}
	first := p.shardRefusal()
	if l.pickShard(r, p) {
		return
	}
	if l.takeOnce(ctx, r, p); p.taken || r.look && !p.refused && p.err == nil {
		return
	}
	p.refused = true // by the first, also if the second failed
	if p.err == nil {
		first = first.shorter(r.now, p)
	}
	for shard := range p.items[0].limit.parts { // and those that were not asked, as far as they are known
		if l.recallShard(r, p, shard) {
			first = first.shorter(r.now, p)
		}
	}
	p.answer(first)
}

// takeOnce takes one subject.
func (l *Limiter) takeOnce(ctx context.Context, r *request, p *part) {
	subject := p.charges[0].Subject
	switch {
	case !p.remote:
		p.taken, p.err = p.store.Take(ctx, r.now, subject, p.charges, p.results)
	case p.forces():
		l.take(ctx, r.now, p)
		l.press(ctx, r, p)
	default:
		l.takeTurn(ctx, r, p)
	}
	p.refused = !p.taken && p.err == nil
	if r.look && p.err == nil {
		p.taken, p.refused = false, p.refuser(r.now) != nil
	}
}

// spends reports whether a charge of p goes past its limit.
func (p *part) forces() bool {
	return slices.ContainsFunc(p.charges, func(c Charge) bool { return c.Force })
}

// takeTurn takes from the shared store, with others if a call for the subject is in flight.
func (l *Limiter) takeTurn(ctx context.Context, r *request, p *part) {
	if w := l.groups.enter(ctx, r, p); w != nil {
		l.wait(p, w)
		return
	}
	p.err = ErrUnavailable // if the store panics
	defer l.leave(p)
	l.take(ctx, r.now, p)
	l.press(ctx, r, p)
}

// take takes from the shared store. A lease that it refuses is tried again as the one request
// that needs it, if that has room.
func (l *Limiter) take(ctx context.Context, now algo.Instant, p *part) {
	l.askFor(ctx, now, p)
	if p.err == nil && !p.taken && p.shrink(now) {
		l.askFor(ctx, now, p)
	}
	if p.err == nil {
		l.memory.remember(now, p.charges[0].Subject, p.charges, p.results, p.taken)
	}
}

// askFor asks the shared store once.
func (l *Limiter) askFor(ctx context.Context, now algo.Instant, p *part) {
	var calls int
	p.taken, calls, p.err = l.ask(ctx, now, p.charges[0].Subject, p.charges, p.results)
	p.calls += calls
}

// ask takes from the shared store at an instant that may be before that of the request, and
// returns how many calls that was: none if it is too late, or a breaker spared it.
func (l *Limiter) ask(ctx context.Context, at algo.Instant, subject Subject, charges []Charge, results []algo.Result) (taken bool, calls int, err error) {
	if err := ctx.Err(); err != nil { // the request has waited for another, or for more than one call
		return false, 0, l.crowded(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	begun := l.pulse.answers.Load()
	taken, err = l.store.Take(ctx, at, subject, charges, results)
	if errors.Is(err, ErrBreakerOpen) {
		return false, 0, err
	}
	if err == nil && slices.ContainsFunc(results, func(r algo.Result) bool { return r.Machine == nil }) {
		taken, err = false, errBlank
	}
	l.failing.Store(!Answered(err))
	return taken, 1, l.pulse.judge(begun, err)
}

// errBlank is the failure of a store that breaks its contract. Without it the states would be
// remembered, and reading them would panic.
var errBlank = fmt.Errorf("%w: %w: no state of a limit that was asked for", ErrUnavailable, ErrFormat)

// shrink gives up what leases would have taken beyond the request, and reports whether
// the request alone has room.
func (p *part) shrink(now algo.Instant) bool {
	shrunk := false
	for i := range p.items {
		if it := &p.items[i]; p.charges[i].Cost > it.want {
			p.charges[i].Cost, shrunk = it.want, true
		}
		if p.refuses(i, now) {
			return false
		}
	}
	return shrunk
}

// pickShard chooses a part of a sharded limit that memory does not know to refuse, at
// random and not the one that has just refused. It reports true if there is none; the one
// with the shortest wait is then the answer.
func (l *Limiter) pickShard(r *request, p *part) (refused bool) {
	shards := p.items[0].limit.parts
	tried, answer := p.charges[0].Limit, p.shardRefusal()
	first := l.intN(len(shards))
	for i := range shards {
		shard := (first + i) % len(shards)
		if shards[shard] == tried {
			continue
		}
		if !l.recallShard(r, p, shard) {
			return false
		}
		answer = answer.shorter(r.now, p)
	}
	p.answer(answer)
	return true
}

// recallShard makes a shard the one that p charges, with what memory holds of it, and reports
// whether that refuses.
func (l *Limiter) recallShard(r *request, p *part, shard int) (refuses bool) {
	it, c := &p.items[0], &p.charges[0]
	c.Subject, c.Limit = it.Subject.shard(shard), it.limit.parts[shard]
	it.Limit, p.results[0] = c.Limit, algo.Result{}
	return l.memory.recall(r.now, c.Subject, p.items, p.results)
}

// refusal is that of a shard. The zero value is none.
type refusal struct {
	limit  *Limit
	result algo.Result
	hold   time.Duration
}

// shardRefusal returns the refusal by the shard that p charges.
func (p *part) shardRefusal() refusal {
	return refusal{p.charges[0].Limit, p.results[0], p.items[0].hold}
}

func (p *part) answer(by refusal) {
	p.charges[0].Limit, p.items[0].Limit, p.results[0], p.items[0].hold = by.limit, by.limit, by.result, by.hold
}

// shorter returns f, or the refusal by the shard that p charges if its wait is shorter or f is none.
func (f refusal) shorter(now algo.Instant, p *part) refusal {
	other := p.shardRefusal()
	if f.result.Machine == nil || other.wait(now, p.items[0].want) < f.wait(now, p.items[0].want) {
		return other
	}
	return f
}

// wait returns how long until the shard may take a cost.
func (f refusal) wait(now algo.Instant, cost int64) time.Duration {
	return max(f.hold, f.result.RetryAfter(now, cost))
}

// refundRest gives back what was taken of a request that another subject refused.
func (l *Limiter) refundRest(ctx context.Context, r *request, elapsed time.Duration) {
	ctx = l.deadline(ctx, r)
	asked, remote := time.Now(), 0
	done := make([]Refunds, len(r.parts))
	var wg sync.WaitGroup
	for i := range r.parts {
		if back := r.parts[i].refund(); len(back.charges) > 0 {
			if back.remote {
				remote++
			}
			wg.Go(func() { done[i] = l.giveBack(ctx, r.now, back, elapsed) })
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
