// Package regions is the layer of limits that regions share. If the share of this region is used up, it moves share from
// other regions, and asks the layer below again.
package regions

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/health"
	"github.com/weir-limits/weir/limiter/internal/parallel"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Regions moves share between regions.
type Regions struct {
	Below  chain.Layer
	Own    domain.Shares
	All    []domain.Shares // the stores of all regions; nil at the place of this region
	Cache  *table.Cache    // nil for a store of this process
	Health *health.Health  // nil for a store of this process
	Clock  domain.ConcurrentClock
	Log    func(ctx context.Context, now algo.Instant, err error)
	transfers
}

// Timeout bounds the time that a decision waits for share of other regions. DebitTimeout is the part of it that the other
// regions have for their answers. The rest is for the credit in the store of this region.
const (
	Timeout      = 400 * time.Millisecond
	DebitTimeout = 300 * time.Millisecond
)

// A second round begins only if the first one took at most a third of Timeout. Its debits then have more time than
// those of the first.
const (
	maxRounds  = 2
	firstRound = Timeout / 3
)

// Know implements chain.Layer. A limit of which other regions can have share is not known to refuse.
func (r *Regions) Know(a *chain.Ask) (refuses bool) {
	if !r.Below.Know(a) {
		return false
	}
	if r.moves(a) {
		if lacks, curable := (&cure{Ask: a}).lacks(); curable && len(lacks) > 0 {
			a.Verdict, a.Early, a.Lacks, a.Counted = chain.Unanswered, false, true, true
			return false
		}
	}
	r.flag(a)
	return true
}

// Settle implements chain.Layer. A correction moves no share.
func (r *Regions) Settle(c *chain.Correction) { r.Below.Settle(c) }

// Take implements chain.Layer.
func (r *Regions) Take(a *chain.Ask) {
	r.Below.Take(a)
	if a.Verdict != chain.Refused {
		return
	}
	if r.moves(a) {
		r.cure(a)
	}
	r.flag(a)
}

// moves reports whether share can move for a.
func (r *Regions) moves(a *chain.Ask) bool { return len(r.All) > 0 && !a.Look && !a.Shadow }

// cure moves share as long as that can change the answer.
func (r *Regions) cure(a *chain.Ask) {
	request, c := a.Request, cure{Regions: r, Ask: a}
	defer func() {
		if a.Request != request {
			a.End()
			a.Request = request
		}
	}()
	for a.Verdict == chain.Refused && c.transfer() {
		if a.Request != request {
			a.End()
		}
		a.Request, a.Counted, a.Early = request.Again(), true, false // the calls that follow have a deadline of their own
		r.Below.Take(a)
	}
}

// flag flags the limits of which another region can have share, so that a refused caller returns soon. Without an
// answer of all regions, nobody knows that they have none.
func (r *Regions) flag(a *chain.Ask) {
	if len(r.All) == 0 {
		return
	}
	for i := range a.Lines {
		line := &a.Lines[i]
		line.Soon = 0
		if line.Limit.Regions() != nil && !line.Shareless && a.Err == nil {
			line.Soon = pause
		}
	}
}

// cure is the attempt to get share for one ask.
type cure struct {
	*Regions
	*chain.Ask
	rounds int                     // how often it asked other regions for share, or waited for a request that did
	until  time.Time               // end of the time for these rounds
	asked  [domain.MaxCharges]bool // the charges for which it has asked, or waited in vain
}

// lack is a limit that refuses a request, although other regions can have share of it.
type lack struct {
	need
	i     int   // index of the charge
	index int64 // window of the transfer
	asked [algo.MaxRegions]bool
	moved [algo.MaxRegions]int64
	errs  [algo.MaxRegions]error
	state algo.Result // after the credit
	err   error       // of the credit
}

// transfer moves share for all limits that refuse, at the same time, if nothing else refuses. It reports whether the store
// can decide again. It asks for share of a limit once. In a second round, it asks for what was not known to be lacking in
// the first, or for what a transfer of another request did not bring.
func (c *cure) transfer() bool {
	if c.Health != nil && c.Health.Failing() { // the credit would fail too, and the share would be lost
		return false
	}
	lacks, curable := c.lacks()
	if !curable || len(lacks) == 0 || !c.beginRound() {
		return false
	}
	lacks = c.makeTransfers(lacks)
	return len(lacks) > 0 && c.awaitTransfers(lacks)
}

// lacks returns the limits that refuse the request and can get share of other regions. curable is false if another limit
// refuses the request, or if other regions could not help. Limits with Mark refuse nobody.
func (c *cure) lacks() (lacks []*lack, curable bool) {
	for i := range c.Lines {
		limit, want := c.Lines[i].Limit, c.Lines[i].Want
		switch {
		case !c.Refuses(i):
		case limit.Regions() != nil && !c.asked[i] && c.Results[i].Machine != nil && c.Decided(i) && want <= limit.Machine().Capacity() &&
			!limit.Machine().Ahead(c.Results[i].State, c.Now):
			index, amount := algo.Lack(limit.Machine(), c.Results[i].State, c.Now, want)
			lacks = append(lacks, &lack{i: i, index: index, need: need{amount: amount}})
		case limit.Enforced():
			return nil, false
		}
	}
	return lacks, true
}

// beginRound reports whether there is time for a round. It is not if the invocation could end between debit and credit.
func (c *cure) beginRound() bool {
	if c.rounds == 0 {
		c.until = time.Now().Add(Timeout)
	} else if c.rounds == maxRounds || time.Until(c.until) < Timeout-firstRound {
		return false
	}
	c.rounds++
	deadline, ok := c.Context().Deadline()
	return !ok || !deadline.Before(c.until)
}

// makeTransfers makes the transfers of the limits for which no other request makes one. It returns the limits that get share
// now, none if the request gets not enough of them. It ends its transfers before the request waits for others: two requests
// could wait for each other.
func (c *cure) makeTransfers(lacks []*lack) (begun []*lack) {
	defer func() {
		for _, k := range lacks {
			if k.first {
				c.end(c.Now, c.Charges[k.i].Limit.Rate.Span(), &k.need)
			}
		}
	}()
	begun = c.beginTransfers(lacks)
	if begun != nil {
		c.ask(begun)
	}
	return begun
}

// beginTransfers joins the transfers of other requests that are running, and begins the others. It returns nil if a limit
// can get no share now, so that no share moves in vain.
func (c *cure) beginTransfers(lacks []*lack) (begun []*lack) {
	for _, k := range lacks {
		charge, line := &c.Charges[k.i], &c.Lines[k.i]
		known := c.begin(c.Now, transferKey{charge.Subject, charge.Limit}, &k.need, c.rounds == 1)
		switch {
		case k.first || k.running != nil:
			begun = append(begun, k)
		case line.Limit.Enforced():
			line.Shareless = known && !k.elsewhere
			return nil
		default:
			c.asked[k.i] = true
		}
	}
	return begun
}

// awaitTransfers waits for the transfers of other requests. It reports whether all limits have got share.
func (c *cure) awaitTransfers(lacks []*lack) bool {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.Context()), c.until)
	defer cancel()
	all := true
	for _, k := range lacks {
		if k.credited { // its state is new, so no earlier refusals count
			c.BackOffs[k.i] = 0
		}
		moved := k.credited && !c.Refuses(k.i)
		c.asked[k.i] = true
		if !k.first {
			select {
			case <-k.running:
				moved = c.result(&k.need)
				if moved {
					c.BackOffs[k.i] = 0
				}
			case <-ctx.Done():
				k.elsewhere = true
			}
			c.asked[k.i] = !moved
		}
		line := &c.Lines[k.i]
		line.Shareless = !k.elsewhere
		all = all && (moved || !line.Limit.Enforced())
	}
	return all
}

// ask makes the transfers that the request began: it asks the other regions for all limits at the same time, and then
// credits what they gave.
func (c *cure) ask(lacks []*lack) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(c.Context()), c.until)
	defer cancel()
	c.debit(ctx, lacks)
	var gifts []*lack
	var p parallel.Calls
	for _, k := range lacks {
		c.count(ctx, k)
		if k.got > 0 {
			gifts = append(gifts, k)
			k.err = domain.ErrUnavailable // this error stays if the store panics
			charge := &c.Charges[k.i]
			p.Add(func() {
				k.state, k.credited, k.err = c.Own.Credit(ctx, c.Now, charge.Subject, charge.Limit, k.index, k.got)
			})
		}
	}
	p.Run(c.Clock)
	for _, k := range gifts {
		c.countCredit(ctx, k)
	}
}

// debit takes share from all other regions, at the same time.
func (c *cure) debit(ctx context.Context, lacks []*lack) {
	ctx, cancel := context.WithDeadline(ctx, c.until.Add(DebitTimeout-Timeout))
	defer cancel()
	var p parallel.Calls
	for _, k := range lacks {
		k.made, k.elsewhere = true, true
		charge := &c.Charges[k.i]
		for i, other := range charge.Limit.Regions() {
			if own := charge.Limit.Rate.Regions; !k.first || i == own.Place || !own.HasShare(i) || k.transfer.lost[i].pauses(c.Now, k.index) {
				continue
			}
			c.Transfer.Calls++
			k.asked[i], k.errs[i] = true, domain.ErrUnavailable // this error stays if the store panics
			p.Add(func() {
				k.moved[i], k.errs[i] = c.All[i].Debit(ctx, c.Now, charge.Subject, other, k.index, k.wanted, &k.transfer.seen[i])
			})
		}
	}
	p.Run(c.Clock)
}

// count adds up the answers to the debits of k.
func (c *cure) count(ctx context.Context, k *lack) {
	if k.first {
		k.elsewhere = false
	}
	for i, err := range k.errs {
		switch {
		case !k.asked[i]: // after a pause, another request of a long window can ask it again
			if k.first && k.transfer.lost[i].pauses(c.Now, k.index) && c.Charges[k.i].Limit.Rate.Span() > lostPause {
				k.elsewhere = true
			}
		case err == nil:
			k.got += k.moved[i]
			seen := k.transfer.seen[i]
			k.elsewhere = k.elsewhere || seen.Machine != nil && seen.Machine.Remaining(seen.State, c.Now) > 0
		default:
			k.elsewhere = true
			c.Transfer.Failed++
			c.Log(ctx, c.Now, err)
			if !domain.Answered(err) && !errors.Is(err, domain.ErrBreakerOpen) && !errors.Is(err, domain.ErrNotSent) &&
				!errors.Is(err, domain.ErrThrottled) {
				k.transfer.lost[i] = lostAt{true, k.index, c.Now}
				c.Transfer.Lost++
			}
		}
	}
}

// countCredit counts the credit of k, and keeps its result.
func (c *cure) countCredit(ctx context.Context, k *lack) {
	c.Calls++
	if k.err != nil {
		c.Log(ctx, c.Now, k.err)
	}
	k.credited = k.credited && k.err == nil
	if !k.credited {
		k.elsewhere = true
		c.Transfer.Lost++
		return
	}
	c.Transfer.Moved += k.got
	c.Results[k.i] = k.state
	if c.Cache != nil {
		charge := &c.Charges[k.i]
		c.Cache.Replace(charge.Subject, charge.Limit.ID, k.state)
	}
}
