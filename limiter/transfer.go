package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// TransferTimeout bounds the time that a decision waits for share of other regions.
const TransferTimeout = 400 * time.Millisecond

// DebitTimeout is the part of TransferTimeout that other regions have for their answers. The rest is for the credit in the
// store of this region.
const DebitTimeout = 300 * time.Millisecond

// transfer moves share from other regions for the limits that refuse the request. It makes at most one transfer for a
// request, and only if nothing else refuses. It reports whether the stores can decide the request again.
func (r *request) transfer(ctx context.Context) bool {
	l := r.limiter
	if !r.shared || r.look || r.transferred || len(l.regions) == 0 || !r.curable() {
		return false
	}
	r.transferred = true
	for i := range r.batches {
		b := &r.batches[i]
		if !b.denies() || b.shadow() {
			continue
		}
		for j := range b.tasks {
			if b.refuses(j, r.now) && !r.moveShare(ctx, b, j) {
				return false
			}
		}
	}
	for i := range r.batches {
		if b := &r.batches[i]; b.refused && !b.shadow() {
			r.storeCalls += b.calls
			b.refused, b.calls = false, 0
		}
	}
	if r.cancel != nil { // the calls that follow have a deadline of their own
		r.cancel()
	}
	r.ctx, r.cancel = nil, nil
	return true
}

// curable reports whether share of other regions could admit the request: only limits that regions share refuse it.
func (r *request) curable() bool {
	for i := range r.served {
		if s := &r.served[i]; !s.allowed && s.task.original.enforced() {
			return false
		}
	}
	for i := range r.batches {
		b := &r.batches[i]
		if !b.denies() || b.shadow() {
			continue
		}
		if b.err != nil || b.repeats {
			return false
		}
		for j := range b.tasks {
			if it := &b.tasks[j]; b.refuses(j, r.now) && (it.original.regions == nil || !it.decided(b.results[j]) ||
				it.want > it.original.machine.Capacity() || it.original.machine.Ahead(b.results[j].State, r.now)) {
				return false
			}
		}
	}
	return true
}

// moveShare moves share to the limit of task j, or waits for another request that does. It reports whether share has moved.
func (r *request) moveShare(ctx context.Context, b *batch, j int) bool {
	l, c := r.limiter, b.charges[j]
	t, running, first := l.transfers.begin(r.now, transferKey{c.Subject, c.Limit})
	switch {
	case t == nil:
		return false
	case first:
		moved, elsewhere := false, true
		defer func() { l.transfers.end(r.now, c.Limit.Rate.Span(), t, moved, elsewhere) }()
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < TransferTimeout { // the invocation would end between debit and credit
			b.tasks[j].elsewhere = true
			return false
		}
		moved, elsewhere = r.makeTransfer(ctx, t, b, j)
		b.tasks[j].elsewhere = elsewhere
		return moved
	case running != nil:
		<-running
	}
	moved, elsewhere := l.transfers.result(t)
	b.tasks[j].elsewhere = elsewhere
	return moved && running != nil
}

// makeTransfer asks the other regions at the same time, and then credits what they gave. elsewhere reports whether another
// region may have share that it did not give.
func (r *request) makeTransfer(ctx context.Context, t *transfer, b *batch, j int) (moved, elsewhere bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), TransferTimeout)
	defer cancel()
	c, w := b.charges[j], b.charges[j].Limit.machine.(*algo.Shared)
	at := w.At(b.results[j].State, r.now)
	lack := at.Count - w.Room(at, r.now, b.tasks[j].want)
	got, elsewhere := r.debit(ctx, t, c, at.Window, lack)
	if got == 0 {
		return false, elsewhere
	}
	r.storeCalls++
	result, credited, err := r.limiter.shares.Credit(ctx, r.now, c.Subject, c.Limit, at.Window, got)
	if err != nil || !credited {
		if r.moved.Lost++; err != nil {
			r.limiter.log.failure(ctx, r.now, err)
		}
		return false, true
	}
	r.moved.Moved += got
	b.results[j] = result
	if s := r.limiter.shared; s != nil {
		s.denials.change(c.Subject, c.Limit.ID, func(seen *seenState) {
			seen.result = result
			seen.expire()
		})
	}
	return true, elsewhere
}

// debit takes share of a window from all other regions, at the same time.
func (r *request) debit(ctx context.Context, t *transfer, c Charge, index, lack int64) (got int64, elsewhere bool) {
	l, began := r.limiter, time.Now()
	ctx, cancel := context.WithTimeout(ctx, DebitTimeout)
	defer cancel()
	var moved [algo.MaxRegions]int64
	var errs [algo.MaxRegions]error
	var p parallel
	for i, other := range c.Limit.regions {
		if i == c.Limit.Rate.Regions.Place || !c.Limit.Rate.Regions.HasShare(i) || t.lost[i] == (lostAt{true, index}) {
			elsewhere = elsewhere || t.lost[i] == lostAt{true, index}
			continue
		}
		r.moved.Calls++
		p.start(l.concurrentClock(), func() {
			defer p.keep()
			errs[i] = ErrUnavailable // this error stays if the store panics
			moved[i], errs[i] = l.regions[i].Debit(ctx, r.now, c.Subject, other, index, lack)
		})
	}
	p.wait(l.concurrentClock())
	r.storeTime += time.Since(began)
	for i, err := range errs {
		if err == nil {
			got += moved[i]
			continue
		}
		elsewhere = true
		r.moved.Failed++
		l.log.failure(ctx, r.now, err)
		if !Answered(err) && !errors.Is(err, ErrBreakerOpen) && !errors.Is(err, ErrNotSent) && !errors.Is(err, ErrThrottled) {
			t.lost[i] = lostAt{true, index}
			r.moved.Lost++
		}
	}
	return got, elsewhere
}
