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

// charge charges all parts: first those of stores in this process, one after the other until one
// refuses, then those of a shared store at the same time.
func (r *request) charge(ctx context.Context) {
	l := r.limiter
	if len(r.parts) > 1 || l.shares() && l.fallback.Holds(r.now) {
		r.begun = time.Now() // for its monotonic reading
	}
	var last *part // of a shared store
	remote := 0
	for i := range r.parts {
		p := &r.parts[i]
		switch {
		case p.refused || p.skipped || p.err != nil:
		case p.remote:
			last = p
			remote++
		default:
			if r.take(ctx, p); p.refused && !p.shadow() {
				return
			}
		}
	}
	if remote == 0 {
		return
	}
	ctx = r.deadline(ctx)
	asked := time.Now()
	if remote == 1 {
		r.take(ctx, last)
	} else {
		l.takeRemote(ctx, r)
	}
	r.stored += time.Since(asked)
}

// takeAll charges some of the parts of a shared store, all at the same time.
func (r *request) takeAll(ctx context.Context, which func(*part) bool) {
	var wg sync.WaitGroup
	for i := range r.parts {
		if p := &r.parts[i]; p.remote && which(p) {
			wg.Go(func() { r.take(ctx, p) })
		}
	}
	wg.Wait()
}

// takeOnce charges one part once.
func (r *request) takeOnce(ctx context.Context, p *part) {
	l, subject := r.limiter, p.charges[0].Subject
	switch {
	case !p.remote:
		p.taken, p.err = p.store.Take(ctx, r.now, subject, p.charges, p.results)
	case p.forces():
		l.take(ctx, r.now, p)
		l.press(ctx, r, p)
	default:
		r.takeTurn(ctx, p)
	}
	p.refused = !p.taken && p.err == nil
	if r.look && p.err == nil {
		p.taken, p.refused = false, p.refuser(r.now) != nil
	}
}

// takeTurn charges the shared store; if a call for the subject is in flight, together with other
// requests that wait for it.
func (r *request) takeTurn(ctx context.Context, p *part) {
	l := r.limiter
	if w := l.groups.enter(ctx, r, p); w != nil {
		l.wait(p, w)
		return
	}
	p.err = ErrUnavailable // if the store panics
	defer l.leave(p)
	l.take(ctx, r.now, p)
	l.press(ctx, r, p)
}

// take charges the shared store. If the store refuses a lease, take charges the request alone, if
// there is room for it.
func (l *Limiter) take(ctx context.Context, now algo.Instant, p *part) {
	l.takeShared(ctx, now, p)
	if p.err == nil && !p.taken && p.shrink(now) {
		l.takeShared(ctx, now, p)
	}
	if p.err == nil {
		l.denials.remember(now, p.charges[0].Subject, p.charges, p.results, p.taken)
	}
}

// takeShared calls the shared store once for p, or twice if it refuses a backdated lease that
// passes at now.
func (l *Limiter) takeShared(ctx context.Context, now algo.Instant, p *part) {
	ask := func(at algo.Instant) {
		var calls int
		p.taken, calls, p.err = l.ask(ctx, at, p.charges[0].Subject, p.charges, p.results)
		p.calls += calls
	}
	at, hint := l.chargeAt(now, p)
	if hint == nil {
		ask(now)
		return
	}
	seen := slices.Clone(p.results)
	copy(p.results, hint)
	if ask(at); p.err != nil {
		copy(p.results, seen)
	} else if !p.taken && p.refuser(now) == nil {
		ask(now)
	}
}

// ask calls Take of the shared store. It returns the number of calls that were made: none after
// the deadline, or while a breaker is open.
func (l *Limiter) ask(ctx context.Context, at algo.Instant, subject Subject, charges []Charge, results []algo.Result) (taken bool, calls int, err error) {
	if err := ctx.Err(); err != nil { // other requests or calls took all the time
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

// errBlank is the failure of a store that breaks its contract: reading a missing state would panic.
var errBlank = fmt.Errorf("%w: %w: the store returned no state for a limit", ErrUnavailable, ErrFormat)

// shrink reduces leases to the cost of the request. It reports whether any was larger, and the
// known state has room for the request.
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
