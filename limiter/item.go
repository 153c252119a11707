package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// item is one charge of a request: as the caller made it, and as the store gets it.
type item struct {
	Charge
	limit   *Limit        // as charged by the caller; a part of a spread limit has one of its own
	want    int64         // cost of the request; a lease takes more, a look nothing
	hold    time.Duration // the back-off denies it for this time, whatever its state
	cells   bool          // counted in Options.Cells
	sharded bool
	done    bool // by an account

	lease  *account // that the charge renews
	size   int64    // of the new lease
	serial int64    // of the lease, once it is renewed
	spare  int64    // what it holds beyond this request
}

// decided reports whether the parameters of the item's own limit decided r.
func (i *item) decided(r algo.Result) bool {
	return r.Machine == i.Limit.machine || r.Machine.Fingerprint() == i.Limit.fingerprint
}

// with reports whether a store charges i and j in one step.
func (i *item) with(j *item) bool {
	return i.Subject == j.Subject && i.cells == j.cells && !i.sharded && !j.sharded
}

// clamped returns how many charges found a state that the store clamped. A look clamps nothing.
func clamped(charges []Charge, results []algo.Result) (n int) {
	for i := range results {
		if results[i].Clamped && charges[i].Cost > 0 {
			n++
		}
	}
	return n
}
