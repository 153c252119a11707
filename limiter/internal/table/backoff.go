package table

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// backOff limits how often the process repeats store calls that the store refuses, for one limit of a subject.
// Without it, the process would make a call each time its cached state has room again, although other processes take
// that room. The zero value limits nothing.
//
// A process can make three refused calls at once, and then about one per ttl, the life of a cache entry:
//
//   - Each refused call adds ttl to a debt, and time reduces the debt. If the debt exceeds twice ttl,
//     the process pauses. The pause is random: between half and all of the time until the debt is twice
//     ttl again. Early or frequent requests do not shorten a pause.
//   - An admission pays for one refused call, unless the caller sent requests before its Retry-After had
//     passed. Therefore, a patient caller gets its part, and a flood gets no more than a patient caller.
//   - A pause applies to costs at least as large as the smallest refused cost. Costs of at least twice
//     this cost have a separate debt. A pause does not apply to a cost for which the cached state had
//     room.
//
// If the store refuses, Retry-After is the exact wait. During a pause, Retry-After is the time until the pause ends.
// Charges of cost 0 and forced charges are never paused.
type backOff struct {
	most  int64   // the threshold of the charges
	cost  int64   // the smallest refused cost; 0 if none
	debts [2]debt // debts[0] is for costs below 2*cost, and debts[1] for larger costs
}

// debt counts the refused store calls for a range of costs. Each refused call increases it, and passing
// time reduces it.
type debt struct {
	paid  algo.Instant // when time has reduced the debt to 0
	until algo.Instant // instant before which the process makes no store call
	early int          // requests that the cache denied; each store call reduces this number
	// credit is the number of future refused calls that admissions have paid for.
	credit int
}

// A debt is at most three refused calls. Admissions can give a credit of up to eight refused calls,
// because a caller that obeys RetryAfter is admitted at irregular times.
const (
	mostDebt   = 3
	mostCredit = 8
)

func (b *backOff) of(cost int64) *debt {
	if cost < 2*b.cost {
		return &b.debts[0]
	}
	return &b.debts[1]
}

// left returns the remaining time of the back-off for a cost; 0 for the cost 0. result is the cached state; the store returned it at
// the instant seen.
func (b *backOff) left(now algo.Instant, result algo.Result, seen algo.Instant, cost int64, ttl time.Duration) time.Duration {
	if cost < b.cost {
		return 0
	}
	left := b.of(cost).until.Sub(now)
	if left <= 0 || left > ttl { // more than ttl: the clock was set back
		return 0
	}
	if result.RetryAfter(seen, cost) == 0 {
		return 0
	}
	return left
}

// refused records that the store refused the cost at the instant now.
func (b *backOff) refused(now algo.Instant, cost int64, ttl time.Duration, intN func(int) int) {
	switch {
	case b.cost == 0, cost > b.cost && b.debts[0].paid <= now && b.debts[1].paid <= now:
		b.cost = cost
	case 2*cost <= b.cost: // the debts of larger costs do not apply to this cost
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
	d.paid = min(max(d.paid, now).Add(ttl), now.Add(mostDebt*ttl))
	if wait := d.paid.Add(-(mostDebt - 1) * ttl).Sub(now); wait > 0 {
		d.until = now.Add(wait/2 + time.Duration(intN(int(wait/2)+1)))
	}
}

// admitted records that the store admitted the cost at the instant now.
func (b *backOff) admitted(now algo.Instant, cost int64, ttl time.Duration) {
	if cost < b.cost {
		return
	}
	d := b.of(cost)
	switch {
	// A caller with more than one early request ignores RetryAfter. A single early request can
	// come from a client that did not know RetryAfter.
	case d.early > 1:
	case d.paid > now:
		d.paid = d.paid.Add(-ttl)
	default:
		d.credit = min(d.credit+1, mostCredit)
	}
	d.fade()
}

// fade reduces the number of early requests by a quarter.
func (d *debt) fade() { d.early -= (d.early + 3) / 4 }
