package local

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// backOff bounds how many store calls are refused for one limit of a subject in the denial cache: a
// state of the past expects quota that other processes have taken. The zero value bounds nothing.
//
// A process may make three refused calls at once, and then about one in the cache's trust:
//
//   - Each refused call adds trust to a debt, which time pays off. While the debt is more than twice
//     trust, the process makes no call until an instant drawn at random from the second half of
//     the time until the next call is paid for. A process that is early or persistent gains nothing.
//   - An admission pays for one refused call, unless requests came before their Retry-After.
//     A patient caller therefore gets its share, and a flood gets no more.
//   - A back-off applies to costs at least as large as the smallest refused one. Costs of twice that
//     have a debt of their own. A cost for which the cached state had room is not backed off.
//
// A refusal of the store reports the exact wait of its state; a refusal of the back-off reports its
// end. Looks and forced charges are not backed off.
type backOff struct {
	cost  int64   // the smallest refused one; 0: none
	debts [2]debt // of costs below twice that, and of larger ones
}

// debt is what refused calls of a range of costs owe.
type debt struct {
	paid  algo.Instant // the instant at which all is paid off
	until algo.Instant // no store call before
	early int          // requests that the cache denied; it fades with every call
	// credit is the number of refused calls that admissions have paid for in advance.
	credit int
}

// A limit may owe for two refused calls and make a third. Admissions may pay for eight in advance,
// because a patient caller is admitted at irregular times.
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

// hold returns how long cost is backed off, although the state that was seen may have room for it now.
func (b *backOff) left(now algo.Instant, result algo.Result, seen algo.Instant, cost int64, trust time.Duration) time.Duration {
	if b.cost == 0 || cost < b.cost {
		return 0
	}
	left := b.of(cost).until.Sub(now)
	if left <= 0 || left > trust { // or the clock was set back
		return 0
	}
	if result.RetryAfter(seen, cost) == 0 {
		return 0
	}
	return left
}

// refused records that the store refused cost at now.
func (b *backOff) refused(now algo.Instant, cost int64, trust time.Duration, intN func(int) int) {
	switch {
	case b.cost == 0, cost > b.cost && b.debts[0].paid <= now && b.debts[1].paid <= now:
		b.cost = cost
	case 2*cost <= b.cost: // it does not owe for larger costs
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

// admitted records that the store admitted cost.
func (b *backOff) admitted(now algo.Instant, cost int64, trust time.Duration) {
	if b.cost == 0 || cost < b.cost {
		return
	}
	d := b.of(cost)
	switch {
	case d.early > 1: // the first request that a new state refuses could not know that
	case d.paid > now:
		d.paid = d.paid.Add(-trust)
	default:
		d.credit = min(d.credit+1, mostCredit)
	}
	d.fade()
}

// fade makes earlier requests count less.
func (d *debt) fade() { d.early -= (d.early + 3) / 4 }
