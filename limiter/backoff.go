package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// backOff bounds the calls that the store refuses, for one limit of a subject in the denial cache:
// a state of the past foresees room that other environments have taken. The zero value bounds
// nothing.
//
// An environment may make three refused calls at once, and then about one in Options.Trust:
//
//   - Each refused call adds Trust to a debt, which time pays off. Above twice Trust the store
//     is not asked before an instant that is drawn at random from the second half of the time until the
//     next call is paid for. So it is no use to be there first, or all the time.
//   - An admission pays for one refused call, unless requests came that did not wait as long
//     as they were asked to. So a caller who waits gets what is due, and a flood gets no more.
//   - Only costs at least as large as the smallest that was refused are backed off, and costs of
//     twice that have a debt of their own. A cost that the state had room for when it was seen
//     asks the store.
//
// A refusal by the store reports the wait of its state, which is exact; one by the back-off when that
// ends. Looks and forced charges are not backed off, and a shadow limit does not count a
// back-off as a refusal.
type backOff struct {
	cost  int64   // the smallest that was refused; 0: none
	debts [2]debt // of costs below twice that, and of larger ones
}

// debt is what refused calls of some costs owe.
type debt struct {
	paid  algo.Instant // when all is paid off
	until algo.Instant // the store is not asked before
	early int          // requests that memory refused; those before the last calls count less
	// credit is how many refused calls admissions have paid for in advance.
	credit int
}

// A limit may owe for two refused calls, and make a third. Admissions may pay for eight in
// advance, because those of a patient caller come by chance.
const (
	mostDebt   = 3
	mostCredit = 8
)

// of returns the debt of a cost.
func (b *backOff) of(cost int64) *debt {
	if cost < 2*b.cost {
		return &b.debts[0]
	}
	return &b.debts[1]
}

// hold returns for how long the store is not asked for cost, though the state may foresee room.
func (b *backOff) hold(now algo.Instant, m *memo, cost int64, trust time.Duration) time.Duration {
	if b.cost == 0 || cost < b.cost {
		return 0
	}
	left := b.of(cost).until.Sub(now)
	if left <= 0 || left > trust { // or the clock was set back
		return 0
	}
	if m.result.Machine.RetryAfter(m.result.State, m.seen, cost) == 0 {
		return 0
	}
	return left
}

// refused notes that the store has refused cost at now.
func (b *backOff) refused(now algo.Instant, cost int64, trust time.Duration, intN func(int) int) {
	switch {
	case b.cost == 0, cost > b.cost && b.debts[0].paid <= now && b.debts[1].paid <= now:
		b.cost = cost
	case 2*cost <= b.cost: // what larger costs owe is not this one's
		if b.debts[0].paid > b.debts[1].paid {
			b.debts[1] = b.debts[0]
		}
		b.cost, b.debts[0] = cost, debt{}
	case cost < b.cost:
		b.cost = cost
	}
	d := b.of(cost)
	d.fade()
	if d.credit > 0 {
		d.credit--
		return
	}
	d.paid = min(max(d.paid, now).Add(trust), now.Add(mostDebt*trust))
	if wait := d.paid.Add(-(mostDebt - 1) * trust).Sub(now); wait > 0 {
		d.until = now.Add(wait/2 + time.Duration(intN(int(wait/2)+1)))
	}
}

// admitted notes that the store has admitted cost.
func (b *backOff) admitted(now algo.Instant, cost int64, trust time.Duration) {
	if b.cost == 0 || cost < b.cost {
		return
	}
	d := b.of(cost)
	switch {
	case d.early > 1: // the first that a new state refuses could not know it
	case d.paid > now:
		d.paid = d.paid.Add(-trust)
	default:
		d.credit = min(d.credit+1, mostCredit)
	}
	d.fade()
}

// fade lets the requests until now count less.
func (d *debt) fade() { d.early -= (d.early + 3) / 4 }
