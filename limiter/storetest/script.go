package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// script lists the operations of each goroutine of one process.
type script struct{ Goroutines [][]operation }

type operation struct {
	Kind    kind
	Subject string
	Now     algo.Instant // instant of a take or a settlement
	Charges []chargeOf   // charges of a take
	Cold    bool         // a take without a hint
	Elapsed time.Duration
	Actual  []int64      // for a settlement: the actual costs of the charges
	Once    limiter.Once // ID of a settlement
	Doubled bool         // for a settlement with an ID: send it twice at the same time
}

type kind int

// These are the kinds of operation. A settlement corrects the latest charge of its goroutine that is not
// yet settled. Without such a charge it does nothing. A goroutine can settle a charge with an ID again.
const (
	takes kind = iota
	settles
	resets
	inspects
)

// chargeOf is a charge on one of the limits of family.
type chargeOf struct {
	Limit, Version int
	Cost           int64
	Force          bool
}

// family returns the limits that scripts charge. Each limit has two versions with different
// algorithms.
func family(t *testing.T) (limits [][]*limiter.Limit) {
	t.Helper()
	for i, rate := range rates {
		next := rates[(i+1)%len(rates)].Algorithm
		first := Limit(t, string('a'+rune(i)), algo.Rate{Algorithm: rate.Algorithm, Requests: 12, Window: time.Second})
		limits = append(limits, []*limiter.Limit{first, changed(t, first, 2, algo.Rate{Algorithm: next, Requests: 15, Window: 1300 * time.Millisecond})})
	}
	return limits
}

// newScript draws a script. Its subjects are one for each limit of the family, and one with several limits. The clock
// of the process is wrong by up to 500 ms. During the script, the process changes to the second version of the rules.
func newScript(r *rand.Rand, name string) script {
	skew := time.Duration(r.Int64N(int64(time.Second))) - 500*time.Millisecond
	s := script{make([][]operation, goroutines)}
	for g := range s.Goroutines {
		newer := r.IntN(2 * operations)
		for i := range operations {
			now := start.Add(skew + time.Duration(i)*60*time.Millisecond + time.Duration(r.Int64N(int64(40*time.Millisecond))))
			version := 0
			if i >= newer {
				version = 1
			}
			s.Goroutines[g] = append(s.Goroutines[g], newOperation(r, name, now, version))
		}
	}
	return s
}

func newOperation(r *rand.Rand, name string, now algo.Instant, version int) operation {
	which := r.IntN(len(rates) + 1)
	op := operation{Subject: name + string('a'+rune(which)), Now: now, Cold: r.IntN(4) == 0, Elapsed: time.Duration(r.Int64N(int64(300 * time.Millisecond)))}
	several := which == len(rates)
	switch n := r.IntN(100); {
	case n < 15:
		op.Kind, op.Actual = settles, []int64{0}
		if r.IntN(2) == 0 {
			op.Actual = []int64{2 + r.Int64N(10), r.Int64N(12), r.Int64N(30)}
		}
		if r.IntN(2) == 0 {
			op.Once, op.Doubled = limiter.Once{ID: limiter.NewVoucherID(), Expires: now.Add(time.Minute)}, r.IntN(2) == 0
		}
	case n < 20:
		op.Kind = inspects
	case n < 25 && !several: // no reset of several limits: see the end of the loop
		op.Kind = resets
	default:
		op.Charges = newCharges(r, which, version)
	}
	// A store can need two attempts to refund several charges. After a reset and a new charge between
	// these attempts, the store refunds fewer charges than the model. So scripts never reset the subject
	// with several limits.
	return op
}

func newCharges(r *rand.Rand, which, version int) (charges []chargeOf) {
	for limit := range rates {
		if limit == which || which == len(rates) && r.IntN(2) == 0 {
			c := chargeOf{Limit: limit, Version: version, Cost: r.Int64N(4)}
			if r.IntN(12) == 0 {
				c.Force, c.Cost = true, r.Int64N(20)
			}
			charges = append(charges, c)
		}
	}
	if charges == nil {
		charges = []chargeOf{{Version: version, Cost: 1}}
	}
	return charges
}
