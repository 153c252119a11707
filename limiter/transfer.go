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

// A second round begins only if the first one took at most a third of TransferTimeout. Its debits then have more time than
// those of the first.
const (
	maxRounds  = 2
	firstRound = TransferTimeout / 3
)

// lack is a limit that refuses a request, although other regions can have share of it.
type lack struct {
	need
	b     *batch
	j     int   // index of the task in b
	index int64 // window of the transfer
	asked [algo.MaxRegions]bool
	moved [algo.MaxRegions]int64
	errs  [algo.MaxRegions]error
	state algo.Result // after the credit
	err   error       // of the credit
}

func (k *lack) task() *task { return &k.b.tasks[k.j] }

// transfer moves share from other regions for all limits that refuse the request, at the same time, if nothing else refuses
// it. It reports whether the stores can decide the request again. A request asks for share of a limit once. In a second
// round, it asks for what was not known to be lacking in the first, or for what a transfer of another request did not bring.
func (r *request) transfer(ctx context.Context) bool {
	l := r.limiter
	if !r.shared || r.look || len(l.regions) == 0 {
		return false
	}
	if l.shared != nil && l.failing.Load() { // the credit would fail too, and the share would be lost
		return false
	}
	lacks, curable := r.lacks()
	if !curable || len(lacks) == 0 || !r.beginRound(ctx) {
		return false
	}
	lacks = r.makeTransfers(ctx, lacks)
	if len(lacks) == 0 || !r.awaitTransfers(ctx, lacks) {
		return false
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

// lacks returns the limits that refuse the request and can get share of other regions. curable is false if another limit
// refuses the request, or if other regions could not help. Limits with Mark refuse nobody.
func (r *request) lacks() (lacks []*lack, curable bool) {
	for i := range r.served {
		if s := &r.served[i]; !s.allowed && s.task.original.enforced() {
			return nil, false
		}
	}
	for i := range r.batches {
		b := &r.batches[i]
		if !b.denies() || b.shadow() {
			continue
		}
		if b.err != nil || b.repeats {
			return nil, false
		}
		for j := range b.tasks {
			task := &b.tasks[j]
			switch {
			case !b.refuses(j, r.now):
			case task.original.regions != nil && !task.asked && task.decided(b.results[j]) && task.want <= task.original.machine.Capacity() &&
				!task.original.machine.Ahead(b.results[j].State, r.now):
				index, amount := algo.Lack(task.original.machine, b.results[j].State, r.now, task.want)
				lacks = append(lacks, &lack{b: b, j: j, index: index, need: need{amount: amount}})
			case task.original.enforced():
				return nil, false
			}
		}
	}
	return lacks, true
}

// beginRound reports whether there is time for a round. It is not if the invocation could end between debit and credit.
func (r *request) beginRound(ctx context.Context) bool {
	if r.rounds == 0 {
		r.shareUntil = time.Now().Add(TransferTimeout)
	} else if r.rounds == maxRounds || time.Until(r.shareUntil) < TransferTimeout-firstRound {
		return false
	}
	r.rounds++
	deadline, ok := ctx.Deadline()
	return !ok || !deadline.Before(r.shareUntil)
}

// makeTransfers makes the transfers of the limits for which no other request makes one. It returns the limits that get share
// now, none if the request gets not enough of them. It ends its transfers before the request waits for others: two requests
// could wait for each other.
func (r *request) makeTransfers(ctx context.Context, lacks []*lack) (begun []*lack) {
	defer func() {
		for _, k := range lacks {
			if k.first {
				r.limiter.transfers.end(r.now, k.b.charges[k.j].Limit.Rate.Span(), &k.need)
			}
		}
	}()
	begun = r.beginTransfers(lacks)
	if begun != nil {
		r.ask(ctx, begun)
	}
	return begun
}

// beginTransfers joins the transfers of other requests that are running, and begins the others. It returns nil if a limit
// can get no share now, so that no share moves in vain.
func (r *request) beginTransfers(lacks []*lack) (begun []*lack) {
	ts := &r.limiter.transfers
	for _, k := range lacks {
		task, c := k.task(), k.b.charges[k.j]
		known := ts.begin(r.now, transferKey{c.Subject, c.Limit}, &k.need, r.rounds == 1)
		switch {
		case k.first || k.running != nil:
			begun = append(begun, k)
		case task.original.enforced():
			task.shareless = known && !k.elsewhere
			return nil
		default:
			task.asked = true
		}
	}
	return begun
}

// awaitTransfers waits for the transfers of other requests. It reports whether all limits have got share.
func (r *request) awaitTransfers(ctx context.Context, lacks []*lack) bool {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.shareUntil)
	defer cancel()
	all := true
	for _, k := range lacks {
		task := k.task()
		if k.credited { // its state is new, so no earlier refusals count
			task.backOff = 0
		}
		moved := k.credited && !k.b.refuses(k.j, r.now)
		task.asked = true
		if !k.first {
			select {
			case <-k.running:
				moved = r.limiter.transfers.result(&k.need)
				if moved {
					task.backOff = 0
				}
			case <-ctx.Done():
				k.elsewhere = true
			}
			task.asked = !moved
		}
		task.shareless = !k.elsewhere
		all = all && (moved || !task.original.enforced())
	}
	return all
}

// ask makes the transfers that the request began: it asks the other regions for all limits at the same time, and then
// credits what they gave.
func (r *request) ask(ctx context.Context, lacks []*lack) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.shareUntil)
	defer cancel()
	r.debit(ctx, lacks)
	var gifts []*lack
	var p parallel
	for _, k := range lacks {
		r.count(ctx, k)
		if k.got > 0 {
			gifts = append(gifts, k)
			k.err = ErrUnavailable // this error stays if the store panics
			c := k.b.charges[k.j]
			p.add(func() {
				k.state, k.credited, k.err = r.limiter.shares.Credit(ctx, r.now, c.Subject, c.Limit, k.index, k.got)
			})
		}
	}
	p.run(r.limiter.concurrentClock())
	for _, k := range gifts {
		r.countCredit(ctx, k)
	}
}

// debit takes share from all other regions, at the same time.
func (r *request) debit(ctx context.Context, lacks []*lack) {
	l := r.limiter
	ctx, cancel := context.WithDeadline(ctx, r.shareUntil.Add(DebitTimeout-TransferTimeout))
	defer cancel()
	var p parallel
	for _, k := range lacks {
		k.made, k.elsewhere = true, true
		c := k.b.charges[k.j]
		for i, other := range c.Limit.regions {
			if own := c.Limit.Rate.Regions; !k.first || i == own.Place || !own.HasShare(i) || k.transfer.lost[i].pauses(r.now, k.index) {
				continue
			}
			r.moved.Calls++
			k.asked[i], k.errs[i] = true, ErrUnavailable // this error stays if the store panics
			p.add(func() {
				k.moved[i], k.errs[i] = l.regions[i].Debit(ctx, r.now, c.Subject, other, k.index, k.wanted, &k.transfer.seen[i])
			})
		}
	}
	p.run(l.concurrentClock())
}

// count adds up the answers to the debits of k.
func (r *request) count(ctx context.Context, k *lack) {
	if k.first {
		k.elsewhere = false
	}
	for i, err := range k.errs {
		switch {
		case !k.asked[i]: // after a pause, another request of a long window can ask it again
			if k.first && k.transfer.lost[i].pauses(r.now, k.index) && k.b.charges[k.j].Limit.Rate.Span() > lostPause {
				k.elsewhere = true
			}
		case err == nil:
			k.got += k.moved[i]
			seen := k.transfer.seen[i]
			k.elsewhere = k.elsewhere || seen.Machine != nil && seen.Machine.Remaining(seen.State, r.now) > 0
		default:
			k.elsewhere = true
			r.moved.Failed++
			r.limiter.log.failure(ctx, r.now, err)
			if !Answered(err) && !errors.Is(err, ErrBreakerOpen) && !errors.Is(err, ErrNotSent) && !errors.Is(err, ErrThrottled) {
				k.transfer.lost[i] = lostAt{true, k.index, r.now}
				r.moved.Lost++
			}
		}
	}
}

// countCredit counts the credit of k, and keeps its result.
func (r *request) countCredit(ctx context.Context, k *lack) {
	r.storeCalls++
	if k.err != nil {
		r.limiter.log.failure(ctx, r.now, k.err)
	}
	k.credited = k.credited && k.err == nil
	if !k.credited {
		k.elsewhere = true
		r.moved.Lost++
		return
	}
	r.moved.Moved += k.got
	k.b.results[k.j] = k.state
	if s := r.limiter.shared; s != nil {
		c := k.b.charges[k.j]
		s.denials.change(c.Subject, c.Limit.ID, func(seen *seenState) {
			seen.result = k.state
			seen.expire()
		})
	}
}

// flagElsewhere flags the limits of which another region can have share, so that a refused caller returns soon. Without an
// answer of all regions, nobody knows that they have none.
func (r *request) flagElsewhere() {
	if len(r.limiter.regions) == 0 {
		return
	}
	for i := range r.batches {
		for j := range r.batches[i].tasks {
			task := &r.batches[i].tasks[j]
			task.elsewhere = task.original.regions != nil && !task.shareless && r.batches[i].err == nil && !r.batches[i].repeats
		}
	}
}
