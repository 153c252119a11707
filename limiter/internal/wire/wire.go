// Package wire is the lowest layer: it calls the store.
package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Wire calls a remote store, and records the states that the store returns.
type Wire struct {
	Store domain.Store
	*chain.Process
}

// Know implements chain.Layer. The store is not asked.
func (w *Wire) Know(*chain.Ask) bool { return false }

// Take implements chain.Layer. If the store refuses a spare, or an earlier instant (backdate), but has room for the request,
// Take calls the store again without them.
func (w *Wire) Take(a *chain.Ask) {
	at, seen := w.backdate(a)
	for {
		ctx, err := w.begin(a)
		if err != nil {
			a.Fail(err)
			break
		}
		before := w.Health.Answers()
		taken, err := w.Store.Take(ctx, at, a.Charges[0].Subject, a.Charges, a.Results)
		a.Answer(w.end(a, before, taken, err))
		if a.Err != nil && seen != nil {
			copy(a.Results, seen)
		}
		switch roomy := a.Verdict == chain.Refused && !a.Group && a.Refuser() == nil; {
		case roomy && at != a.Now:
			at = a.Now
			continue
		case roomy && a.DropSpares():
			continue
		}
		break
	}
	if a.Err == nil && !a.Syncs && (!a.Stale || a.Verdict == chain.Refused) {
		w.Cache.Record(a.Now, a.Charges, a.Results, a.Verdict == chain.Admitted, func(i int) domain.Charge { return least(a, i) })
	}
}

// least returns the charge for which the denial cache records the result i.
func least(a *chain.Ask, i int) domain.Charge {
	line, c := &a.Lines[i], a.Charges[i]
	switch {
	case line.Least != nil:
		c.Limit, c.Cost = line.Least.Limit, line.Least.Cost
	case !a.Look || a.Stale:
		c.Cost = line.Want
	}
	return c
}

// begin returns the context of a call. After the deadline, it returns an error: earlier calls or waits used up the time.
func (w *Wire) begin(a *chain.Ask) (context.Context, error) {
	ctx := a.Deadline()
	if err := ctx.Err(); err != nil {
		return nil, w.Health.Late(err)
	}
	if a.Stale {
		ctx = domain.AllowStale(ctx)
	}
	return ctx, nil
}

// end counts a call and returns its answer. An open breaker makes no call.
func (w *Wire) end(a *chain.Ask, before int64, taken bool, err error) (bool, error) {
	if errors.Is(err, domain.ErrBreakerOpen) {
		return false, err
	}
	a.Calls++
	if err == nil && slices.ContainsFunc(a.Results, func(r algo.Result) bool { return r.Machine == nil }) {
		taken, err = false, errBlank
	}
	return taken, w.Health.Observe(before, err)
}

// errBlank means that the store returned no state. Such a store breaks its contract, and the missing
// state would cause a panic later.
var errBlank = fmt.Errorf("%w: %w: the store returned no state for a limit", domain.ErrUnavailable, domain.ErrFormat)

// A bucket's lease is charged at a random instant before the request. The difference is at most
// 1/backdatePart of the bucket's depth, and at most maxBackdate.
const (
	backdatePart = 1024
	maxBackdate  = 50 * time.Millisecond
)

// backdate returns the instant at which the charges of a are made. If that is earlier than the request, it also returns the
// known states, and puts those that the store probably has at that instant into their place.
//
// A bucket's lease is charged at an instant slightly before the request, unless more than half of the bucket is used.
// A bucket is idle if its TAT is not ahead of the instant of the charge. A bucket that many environments charge is
// idle half of the time, and DynamoDB then needs a second write. At the earlier instant the bucket is not idle, so
// nearly every charge takes one write. The earlier instant lets a bucket exceed its burst by at most 1/backdatePart.
func (w *Wire) backdate(a *chain.Ask) (at algo.Instant, seen []algo.Result) {
	if a.Group || a.Look {
		return a.Now, nil
	}
	lag := maxBackdate
	for i := range a.Charges {
		m := a.Charges[i].Limit.Machine()
		leased := a.Lines[i].Renews != nil || a.Charges[i].Cost > a.Lines[i].Want
		if !leased || !algo.Leaks(m) || a.Lines[i].Limit.Spread.Lease > 0 {
			return a.Now, nil
		}
		if known := a.Results[i]; known.Machine != nil && 2*known.Remaining(a.Now) < known.Machine.Capacity() {
			return a.Now, nil
		}
		lag = min(lag, algo.Leak(m, m.Capacity())/backdatePart)
	}
	seen = slices.Clone(a.Results)
	for i := range a.Results {
		a.Results[i] = algo.Result{Machine: a.Charges[i].Limit.Machine(), State: algo.State{TAT: a.Now}}
	}
	return a.Now.Add(-time.Duration(w.IntN(int(lag)))), seen
}

// Settle implements chain.Layer. It calls the store once, and repeats a throttled call if the correction needs it.
func (w *Wire) Settle(c *chain.Correction) {
	Settle(c, func(ctx context.Context, charges []domain.Charge, results []algo.Result) (s domain.Settled, err error) {
		for pause := firstSettlePause; ; pause *= 2 {
			c.Calls++
			s, err = w.Store.Settle(ctx, c.Now, charges[0].Subject, charges, results, c.Elapsed)
			if !errors.Is(err, domain.ErrItemThrottled) || pause > lastSettlePause || !repeats(charges) {
				return s, err
			}
			if w.Clock.Sleep(ctx, pause/2+time.Duration(w.IntN(int(pause)))) != nil {
				return s, err
			}
		}
	})
}

// A forced charge that is lost admits too many requests. For a limit with a Count, a lost refund refuses an honest
// caller, and a lost release keeps a slot taken. So a throttled settlement of such charges is repeated after pauses
// that double, until its deadline.
const (
	firstSettlePause = 10 * time.Millisecond
	lastSettlePause  = 160 * time.Millisecond
)

func repeats(charges []domain.Charge) bool {
	return slices.ContainsFunc(charges, func(c domain.Charge) bool { return c.Force || c.Limit.Count.Settles() })
}

// Settle makes all corrections of c that are left by one call of a store.
func Settle(c *chain.Correction, call func(context.Context, []domain.Charge, []algo.Result) (domain.Settled, error)) {
	var charges []domain.Charge
	var results []algo.Result
	for i := range c.Parts {
		if p := &c.Parts[i]; !p.Done {
			charges, results = append(charges, p.Charge), append(results, p.Result)
		}
	}
	if len(charges) == 0 {
		return
	}
	s, err := call(c.Deadline(), charges, results)
	c.Err = err
	if err != nil {
		c.Lost += len(charges)
		return
	}
	n, refunds := 0, 0
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Done {
			continue
		}
		p.Done = true
		if !p.Charge.Force {
			refunds++
		} else {
			c.Force(p.Limit, s.Excess[n])
		}
		n++
	}
	c.Given, c.Dropped = c.Given+s.Given, c.Dropped+refunds-s.Given
}

// Local calls a store of this process: each request, alone.
type Local struct{ Store domain.Store }

// Know implements chain.Layer.
func (Local) Know(*chain.Ask) bool { return false }

// Take implements chain.Layer.
func (l Local) Take(a *chain.Ask) {
	a.Answer(l.Store.Take(a.Context(), a.Now, a.Charges[0].Subject, a.Charges, a.Results))
}

// Settle implements chain.Layer.
func (l Local) Settle(c *chain.Correction) {
	Settle(c, func(ctx context.Context, charges []domain.Charge, results []algo.Result) (domain.Settled, error) {
		return l.Store.Settle(ctx, c.Now, charges[0].Subject, charges, results, c.Elapsed)
	})
}
