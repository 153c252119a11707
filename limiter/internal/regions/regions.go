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
	"github.com/weir-limits/weir/limiter/internal/parallel"
)

// Regions moves share between regions.
type Regions struct {
	chain.Below
	*chain.Process
	Own domain.Shares
	All []domain.Shares // the stores of all regions; nil at the place of this region

	transfers transfers
}

// A second round begins only if the first one took at most a third of domain.TransferTimeout. Its debits then have more time than
// those of the first.
const (
	maxRounds  = 2
	firstRound = domain.TransferTimeout / 3
)

// Know implements chain.Layer. A limit of which other regions can have share is not known to refuse.
func (r *Regions) Know(a *chain.Ask) (refuses bool) {
	if !r.Below.Know(a) {
		return false
	}
	if r.moves(a) {
		if all, helps := (&attempt{Ask: a}).shortages(); helps && len(all) > 0 {
			a.Verdict, a.Early, a.NeedsShare, a.Counted = chain.Unanswered, false, true, true
			return false
		}
	}
	r.flag(a)
	return true
}

// Take implements chain.Layer.
func (r *Regions) Take(a *chain.Ask) {
	r.Below.Take(a)
	if a.Verdict != chain.Refused {
		return
	}
	if r.moves(a) {
		r.retryWithShare(a)
	}
	r.flag(a)
}

// moves reports whether share can move for a.
func (r *Regions) moves(a *chain.Ask) bool { return len(r.All) > 0 && !a.Look && !a.Shadow }

// retryWithShare moves share, and asks below again, as long as that can change the answer.
func (r *Regions) retryWithShare(a *chain.Ask) {
	request, try := a.Request, attempt{Regions: r, Ask: a}
	defer func() {
		if a.Request != request {
			a.End()
			a.Request = request
		}
	}()
	for a.Verdict == chain.Refused && try.getShare() {
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

// attempt is one attempt to get share for an ask.
type attempt struct {
	*Regions
	*chain.Ask
	rounds int                     // how often it asked other regions for share, or waited for a request that did
	until  time.Time               // end of the time for these rounds
	asked  [domain.MaxCharges]bool // the charges for which it has asked, or waited in vain
}

// shortage is a limit that refuses a request, although other regions can have share of it.
type shortage struct {
	need
	i     int   // index of the charge
	index int64 // window of the transfer
	asked [algo.MaxRegions]bool
	moved [algo.MaxRegions]int64
	errs  [algo.MaxRegions]error
	state algo.Result // after the credit
	err   error       // of the credit
}

// getShare moves share for all limits that refuse, at the same time, if nothing else refuses. It reports whether the store
// can decide again. It asks for share of a limit once. In a second round, it asks for what was not known to be lacking in
// the first, or for what a transfer of another request did not bring.
func (a *attempt) getShare() bool {
	if a.Health.Failing() { // the credit would fail too, and the share would be lost
		return false
	}
	shortages, helps := a.shortages()
	if !helps || len(shortages) == 0 || !a.beginRound() {
		return false
	}
	shortages = a.makeTransfers(shortages)
	return len(shortages) > 0 && a.awaitTransfers(shortages)
}

// shortages returns the limits that refuse the request and can get share of other regions. helps is false if another limit
// refuses the request, or if other regions could not help. Limits with Mark refuse nobody.
func (a *attempt) shortages() (all []*shortage, helps bool) {
	for i := range a.Lines {
		limit, want := a.Lines[i].Limit, a.Lines[i].Want
		switch {
		case !a.Refuses(i):
		case limit.Regions() != nil && !a.asked[i] && a.Results[i].Machine != nil && a.Decided(i) && want <= limit.Machine().Capacity() &&
			!limit.Machine().Ahead(a.Results[i].State, a.Now):
			index, amount := algo.Lack(limit.Machine(), a.Results[i].State, a.Now, want)
			all = append(all, &shortage{i: i, index: index, need: need{amount: amount}})
		case limit.Enforced():
			return nil, false
		}
	}
	return all, true
}

// beginRound reports whether there is time for a round. It is not if the invocation could end between debit and credit.
func (a *attempt) beginRound() bool {
	if a.rounds == 0 {
		a.until = time.Now().Add(domain.TransferTimeout)
	} else if a.rounds == maxRounds || time.Until(a.until) < domain.TransferTimeout-firstRound {
		return false
	}
	a.rounds++
	a.Moved = true
	deadline, ok := a.Context().Deadline()
	return !ok || !deadline.Before(a.until)
}

// makeTransfers makes the transfers of the limits for which no other request makes one. It returns the limits that get share
// now, none if the request gets not enough of them. It ends its transfers before the request waits for others: two requests
// could wait for each other.
func (a *attempt) makeTransfers(shortages []*shortage) (begun []*shortage) {
	defer func() {
		for _, k := range shortages {
			if k.first {
				a.transfers.end(a.Now, a.Charges[k.i].Limit.Rate.Span(), &k.need)
			}
		}
	}()
	begun = a.beginTransfers(shortages)
	if begun != nil {
		a.moveShare(begun)
	}
	return begun
}

// beginTransfers joins the transfers of other requests that are running, and begins the others. It returns nil if a limit
// can get no share now, so that no share moves in vain.
func (a *attempt) beginTransfers(shortages []*shortage) (begun []*shortage) {
	for _, k := range shortages {
		charge, line := &a.Charges[k.i], &a.Lines[k.i]
		known := a.transfers.begin(a.Now, transferKey{charge.Subject, charge.Limit}, &k.need, a.rounds == 1)
		switch {
		case k.first || k.running != nil:
			begun = append(begun, k)
		case line.Limit.Enforced():
			line.Shareless = known && !k.elsewhere
			return nil
		default:
			a.asked[k.i] = true
		}
	}
	return begun
}

// awaitTransfers waits for the transfers of other requests. It reports whether all limits have got share.
func (a *attempt) awaitTransfers(shortages []*shortage) bool {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(a.Context()), a.until)
	defer cancel()
	all := true
	for _, k := range shortages {
		line := &a.Lines[k.i]
		if k.credited { // its state is new, so no earlier refusals count
			line.BackOff = 0
		}
		moved := k.credited && !a.Refuses(k.i)
		a.asked[k.i] = true
		if !k.first {
			select {
			case <-k.running:
				moved = a.transfers.result(&k.need)
				if moved {
					line.BackOff = 0
				}
			case <-ctx.Done():
				k.elsewhere = true
			}
			a.asked[k.i] = !moved
		}
		line.Shareless = !k.elsewhere
		all = all && (moved || !line.Limit.Enforced())
	}
	return all
}

// moveShare makes the transfers that the request began: it asks the other regions for all limits at the same time, and then
// credits what they gave.
func (a *attempt) moveShare(shortages []*shortage) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(a.Context()), a.until)
	defer cancel()
	a.debit(ctx, shortages)
	var gifts []*shortage
	var p parallel.Calls
	for _, k := range shortages {
		a.count(ctx, k)
		if k.got > 0 {
			gifts = append(gifts, k)
			k.err = domain.ErrUnavailable // this error stays if the store panics
			charge := &a.Charges[k.i]
			p.Add(func() {
				k.state, k.credited, k.err = a.Own.Credit(ctx, a.Now, charge.Subject, charge.Limit, k.index, k.got)
			})
		}
	}
	p.Run(a.Together)
	for _, k := range gifts {
		a.countCredit(ctx, k)
	}
}

// debit takes share from all other regions, at the same time.
func (a *attempt) debit(ctx context.Context, shortages []*shortage) {
	ctx, cancel := context.WithDeadline(ctx, a.until.Add(domain.DebitTimeout-domain.TransferTimeout))
	defer cancel()
	var p parallel.Calls
	for _, k := range shortages {
		k.made, k.elsewhere = true, true
		charge := &a.Charges[k.i]
		for i, other := range charge.Limit.Regions() {
			if own := charge.Limit.Rate.Regions; !k.first || i == own.Place || !own.HasShare(i) || k.transfer.lost[i].pauses(a.Now, k.index) {
				continue
			}
			a.Transfer.Calls++
			k.asked[i], k.errs[i] = true, domain.ErrUnavailable // this error stays if the store panics
			p.Add(func() {
				k.moved[i], k.errs[i] = a.All[i].Debit(ctx, a.Now, charge.Subject, other, k.index, k.wanted, &k.transfer.seen[i])
			})
		}
	}
	p.Run(a.Together)
}

// count adds up the answers to the debits of k.
func (a *attempt) count(ctx context.Context, k *shortage) {
	if k.first {
		k.elsewhere = false
	}
	for i, err := range k.errs {
		switch {
		case !k.asked[i]: // after a pause, another request of a long window can ask it again
			if k.first && k.transfer.lost[i].pauses(a.Now, k.index) && a.Charges[k.i].Limit.Rate.Span() > lostPause {
				k.elsewhere = true
			}
		case err == nil:
			k.got += k.moved[i]
			seen := k.transfer.seen[i]
			k.elsewhere = k.elsewhere || seen.Machine != nil && seen.Machine.Remaining(seen.State, a.Now) > 0
		default:
			k.elsewhere = true
			a.Transfer.Failed++
			a.Log(ctx, a.Now, err)
			if !domain.Answered(err) && !errors.Is(err, domain.ErrBreakerOpen) && !errors.Is(err, domain.ErrNotSent) &&
				!errors.Is(err, domain.ErrThrottled) {
				k.transfer.lost[i] = lostAt{true, k.index, a.Now}
				a.Transfer.Lost++
			}
		}
	}
}

// countCredit counts the credit of k, and keeps its result.
func (a *attempt) countCredit(ctx context.Context, k *shortage) {
	a.Calls++
	if k.err != nil {
		a.Log(ctx, a.Now, k.err)
	}
	k.credited = k.credited && k.err == nil
	if !k.credited {
		k.elsewhere = true
		a.Transfer.Lost++
		return
	}
	a.Transfer.Moved += k.got
	a.Results[k.i] = k.state
	charge := &a.Charges[k.i]
	a.Cache.Replace(charge.Subject, charge.Limit.ID, k.state)
}
