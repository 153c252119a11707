package dynamostore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// debitAttempts bounds the attempts of a debit: the first one expects the state that the caller saw, or a window that counts
// nothing, and the second one knows the item.
const debitAttempts = 2

// Debit implements limiter.Shares. If its request to DynamoDB arrives twice, the second copy has no effect, because its
// condition requires the share that had moved before the first.
func (s *Store) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (int64, error) {
	d := debit{now: now, limit: limit, index: index, lack: lack}
	d.expect(*seen)
	var trip time.Duration
	for range debitAttempts {
		e, taken := d.attempt()
		if taken == 0 && d.item == nil { // what was expected has nothing to give
			item, err := s.get(ctx, subject)
			if err == nil {
				err = d.learn(item)
			}
			if err != nil {
				return 0, err
			}
			e, taken = d.attempt()
		}
		*seen = d.seen
		if taken == 0 {
			return 0, nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < trip { // it would be made, and its answer lost
			return 0, fmt.Errorf("%w: no time for a second attempt of a debit: the first one took %s", limiter.ErrContended, trip)
		}
		began := time.Now()
		item, applied, err := s.update(ctx, subject, e)
		trip = time.Since(began)
		if err == nil {
			err = d.learn(item)
		}
		if err != nil {
			return 0, err
		}
		if applied {
			*seen = d.held.Result
			s.tidy(ctx, now, subject, item, []limiter.Charge{{Limit: limit}})
			return taken, nil
		}
	}
	return 0, fmt.Errorf("%w: debit lost %d races", limiter.ErrContended, debitAttempts)
}

// debit is a debit and what it knows of the item.
type debit struct {
	now         algo.Instant
	limit       *limiter.Limit
	index, lack int64
	known       bool  // held was in the item at some time
	newest      int64 // the newest window in the item at that time
	item        item
	held        limiter.Held
	seen        algo.Result // the state that decided the last attempt
}

// expect sets the state that the first attempt expects to the hint, if that has the parameters of the limit. A region that had
// requests in an earlier window probably has some again.
func (d *debit) expect(hint algo.Result) {
	w := d.limit.Machine().(*algo.Shared)
	if hint.Machine == nil || hint.Machine != w && hint.Machine.Fingerprint() != d.limit.Fingerprint() {
		return
	}
	d.known, d.newest, d.held.Machine, d.held.State = true, hint.State.Window, w, hint.State
	if at := w.At(hint.State, w.Whole.Start(d.index)); at.Window > hint.State.Window && hint.State.Count > 0 {
		at.Count = 1
		d.held.State = at
	}
}

func (d *debit) learn(stored item) (err error) {
	if stored == nil {
		stored = item{}
	}
	d.known, d.item = true, stored
	d.held, err = stored.held(d.limit.ID.String(), d.limit)
	d.newest = d.held.State.Window
	return err
}

// attempt returns the update, and what it takes; 0 if nothing is free.
func (d *debit) attempt() (*expression, int64) {
	w, id := d.limit.Machine().(*algo.Shared), d.limit.ID.String()
	giving, ok := d.held.Giving(d.limit, d.now)
	d.seen = giving.Result
	if !ok {
		return nil, 0
	}
	next, taken := w.Debit(giving.State, d.index, d.now, d.lack)
	if taken == 0 {
		return nil, 0
	}
	e := newExpression()
	if d.held.Machine != nil && d.held.Machine != d.limit.Machine() {
		e.requireState(d.item, id, d.held)
		giving.State = next
		e.replace(d.item, id, giving, d.now)
		e.keepShares(d.limit, d.now)
		return e, taken
	}
	most := int64(0) // the count with which the region gives that much
	if d.known {
		most = w.Room(next, d.now, 0)
	}
	e.move(d.limit, d.index, d.now)
	e.requireMoved(w, id, next.WithMoved(next.Moved()-taken, next.MovedBefore()))
	e.requireCounts(w, id, next, most)
	e.setTo(moved(id, d.index), e.number(next.Moved()))
	d.removeDead(e, id)
	return e, taken
}

// removeDead adds the removal of windows that no decision reads once the update has moved the item to the window of the
// debit. In a region without requests, nothing else would remove them.
func (d *debit) removeDead(e *expression, id string) {
	dead, _ := sharedLayout{}.dead(d.item, id, algo.State{Window: d.index})
	if d.known && d.newest < d.index-1 {
		dead = append(dead, count(id, d.newest), moved(id, d.newest), count(id, d.newest-1), moved(id, d.newest-1))
	}
	for _, name := range dead[:min(len(dead), tidyMost/2)] {
		name = e.name(name)
		if !slices.Contains(e.remove, name) {
			e.remove = append(e.remove, name)
		}
	}
}
