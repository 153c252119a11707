package limiter

import (
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// kept is a charge that an account of this process decided.
type kept struct {
	item    *item
	account *account
	allowed bool
	result  algo.Result // after the charge, or what refused it
	taken   local.Taken // from the counter
	serial  int64       // of the lease
	undone  bool        // the charge was taken back
}

// use serves the item from a lease.
func (k *kept) use(now algo.Instant) {
	l := &k.account.lease
	l.Used += k.item.want
	k.allowed, k.result, k.serial, k.item.spare = true, l.Result, l.Serial, l.Left(now)
}

// undo takes the charge back, if the account still holds the lease or the count that was charged.
func (k *kept) undo() Refunds {
	nothing := !k.allowed || k.item.Cost == 0 || k.undone
	k.undone = true
	switch {
	case nothing:
		return Refunds{}
	case k.item.limit.Spread.counted():
		if !k.account.counter.Undo(k.taken) {
			return Refunds{Dropped: 1}
		}
	case k.account.lease.Serial == k.serial:
		k.account.lease.Used -= k.item.want
	default:
		return Refunds{Dropped: 1}
	}
	return Refunds{Given: 1}
}
