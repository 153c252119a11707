// Package groups is the layer of group commit.
package groups

import (
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/commit"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/health"
	"github.com/weir-limits/weir/limiter/internal/parallel"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Groups is the layer in which requests of this process on one subject share calls (group commit).
type Groups struct {
	Below    chain.Layer
	Health   *health.Health
	Trackers *table.Trackers
	*commit.Groups
}

// Know implements chain.Layer.
func (g *Groups) Know(a *chain.Ask) bool { return g.Below.Know(a) }

// Settle implements chain.Layer.
func (g *Groups) Settle(c *chain.Correction) { g.Below.Settle(c) }

// Take implements chain.Layer. If a call for the subject is in flight, a waits and shares the next call with other
// requests. On an idle subject, all that follows is one call.
func (g *Groups) Take(a *chain.Ask) {
	began := time.Now()
	defer func() { a.StoreTime += time.Since(began) }()
	if alone(a) {
		g.Below.Take(a)
		return
	}
	subject := a.Charges[0].Subject // a layer below can change it
	if w := g.Enter(a); w != nil {
		g.wait(a, w)
		return
	}
	a.Err = domain.ErrUnavailable // this error stays if the store panics
	defer func() {
		if q := g.Leave(subject, a); q != nil {
			a.Err = g.Health.Crowded(a.Err)
			if domain.Busy(a.Err) {
				a.Verdict = chain.Busy
			}
			go g.serve(q)
		}
	}()
	g.Below.Take(a)
}

// alone reports whether a shares no call with other requests, because it forces a charge or takes slots. A store identifies
// the slots of one call together, but each request must release only its own.
func alone(a *chain.Ask) bool {
	for i := range a.Charges {
		if c := &a.Charges[i]; c.Force || c.Cost > 0 && c.Limit.Concurrent() {
			return true
		}
	}
	return false
}

// wait waits until a group has decided a.
func (g *Groups) wait(a *chain.Ask, w *commit.Waiter) {
	o := w.Wait()
	if p, ok := errors.AsType[*parallel.Panic](o.Err); ok {
		panic(p)
	}
	a.Calls += o.Calls
	if errors.Is(o.Err, commit.ErrNoAnswer) { // the charges still belong to the group
		a.Fail(g.Health.Crowded(o.Err))
		return
	}
	w.Answer(a, o)
}

// serve makes calls for q until no request waits.
func (g *Groups) serve(q *commit.Group) {
	for waits := q.Waits(); waits; waits = g.More(q) {
		q.Compose()
		if a, cancel := q.Ask(); a != nil {
			q.Release()
			g.charge(q, a)
			cancel()
		}
	}
}

// charge makes the call of the members of q.
func (g *Groups) charge(q *commit.Group, a *chain.Ask) {
	g.call(a)
	if a.Err != nil && !domain.Busy(a.Err) && g.Crowded(q) {
		a.Err = g.Health.Crowded(a.Err)
		if domain.Busy(a.Err) {
			g.Trackers.RaisePressure(a.Now, a.Charges, false)
		}
	}
	q.Finish(a)
}

// call makes the call of a group. If the store panics, each request of the group panics in its own goroutine.
func (g *Groups) call(a *chain.Ask) {
	defer func() {
		if v := recover(); v != nil {
			a.Calls, a.Err = 1, parallel.PanicOf(v)
		}
	}()
	g.Below.Take(a)
}
