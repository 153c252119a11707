package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// item is one charge of a request. The embedded Charge is what the store gets; limit and want are what
// the caller passed.
type item struct {
	Charge
	limit   *Limit        // limit that the caller passed; Charge.Limit can be its shard or its cell
	want    int64         // cost that the caller passed; Charge.Cost is more for a lease, and 0 for a read
	backOff time.Duration // how long the back-off refuses the charge, even if the state has room
	cells   bool          // Options.Cells counts the charge, and not Limiter.store
	sharded bool
	done    bool // a tracker decided this charge

	lease     *tracker // tracker whose lease the charge renews; nil if none
	leaseSize int64    // size of the new lease
	serial    int64    // serial of the new lease
	leaseLeft int64    // quota that is left of the new lease after this request
}

// charge returns the charge that the caller passed.
func (i *item) charge() Charge {
	return Charge{Subject: i.Subject, Limit: i.limit, Cost: i.want, Force: i.Force}
}

// decided reports whether r was decided by the parameters of the item's limit, and not by newer rules.
func (i *item) decided(r algo.Result) bool {
	return r.Machine == i.Limit.machine || r.Machine.Fingerprint() == i.Limit.fingerprint
}

// with reports whether i and j belong to one batch: a store charges them in one atomic step.
func (i *item) with(j *item) bool {
	return i.Subject == j.Subject && i.cells == j.cells && !i.sharded && !j.sharded
}

// clamped returns the number of charges whose state the store clamped. A charge of cost 0 clamps
// nothing.
func clamped(charges []Charge, results []algo.Result) (n int) {
	for i := range results {
		if results[i].Clamped && charges[i].Cost > 0 {
			n++
		}
	}
	return n
}
