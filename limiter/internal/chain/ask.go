package chain

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/quota"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Verdict is the answer to an Ask.
type Verdict uint8

// The verdicts.
const (
	Unanswered Verdict = iota
	Admitted           // the charges are made; a look would be admitted
	Refused            // Results have a state that refuses, or Lines a back-off
	Busy               // the requests of the subject come too fast; Err says why
	Failed             // the store failed; Err says why
)

// Ask is what one request wants of one subject, with the answer. Each charge has an element of Lines, Charges and Results.
type Ask struct {
	*Request
	Subject domain.Subject
	Lines   []Line
	Charges []domain.Charge // what the store gets; a cost above Line.Want has a spare
	Results []algo.Result   // in: the states that this process last saw; out: the states after the charges, or those that refuse

	// Shadow reports that the limits are shadow limits, which refuse nothing. They count on separate subjects, so all limits
	// of an ask are shadow limits, or none is.
	Shadow bool
	Stale  bool // a state that is some milliseconds old is enough
	Group  bool // the charges are the sums of several requests
	// MayRepeat reports that the request takes the ask again if a breaker rejects it, so OnError does not decide it yet.
	MayRepeat bool
	Syncs     bool // the charges are a sync of a counter, which the denial cache does not keep

	Verdict Verdict
	// Err is why the Verdict is Busy or Failed. It stays if the fallback decided instead. On entry of Take, it is a
	// failure that makes a call useless.
	Err        error
	Early      bool          // refused by what this process knows
	Outage     bool          // counts of an earlier outage refuse
	Full       bool          // the fallback has no room for the subject
	Counted    bool          // the denial cache has counted this refusal in its back-off, and counts no second one
	NeedsShare bool          // shared limits refuse, and other regions can have share
	Calls      int           // calls of the remote store
	StoreTime  time.Duration // time that the ask waited for the remote store
	Clamped    int           // states that syncs of counters clamped
	Overshoot  int64         // by how much a counter exceeds its limit
	Degraded   error         // why a counter decides without the store
	Transfer   domain.Transfer
	Moved      bool           // the ask has waited for transfers of share, which take longer than the deadline of calls
	Refunds    domain.Refunds // of an admission that a layer took back
}

// Line is one charge of an Ask, as the caller passed it, and what the layers did with it.
type Line struct {
	Limit *domain.Limit // limit that the caller passed; the Charge can be on its shard
	Want  int64         // cost that the caller passed; the Charge has more with a spare, and 0 for a look

	BackOff time.Duration // time for which the denial cache refuses the charge, even if the state has room

	// Least is the charge of the request that needs the least room, if the Charge is the sum of several requests.
	Least *domain.Charge

	Shareless bool          // the other regions have no share
	Soon      time.Duration // if it is not 0, a refused caller may return after this time: other regions can have share

	Renews    *table.Tracker // tracker whose lease the spare renews
	Lease     *table.Tracker // tracker whose lease made the charge
	Serial    int64          // serial of this lease
	LeaseLeft int64          // quota that is left of it
	Unbounded int64          // cost with the spare that BoundSpares dropped, because the state was unknown

	Counter *table.Tracker // tracker whose counter made the charge
	Taken   *quota.Taken   // the charge on the counter

	// Mirrored is the state of the fallback after it repeated the charge; nil if it did not.
	Mirrored *algo.Result
	Local    bool // the fallback made the charge, and not the store
}

// Refuser returns the first limit that refuses; nil if none does.
func (a *Ask) Refuser() *domain.Limit {
	for i := range a.Lines {
		if a.Refuses(i) {
			return a.Lines[i].Limit
		}
	}
	return nil
}

// Refuses reports whether the known state or the back-off of charge i refuses it.
func (a *Ask) Refuses(i int) bool {
	r := &a.Results[i]
	return a.Lines[i].BackOff > 0 || !a.Charges[i].Force && r.Machine != nil && r.RetryAfter(a.Now, a.Lines[i].Want) > 0
}

// Exhausted reports whether a known state refuses, without regard to back-offs.
func (a *Ask) Exhausted() bool {
	for i := range a.Lines {
		if r := a.Results[i]; r.Machine != nil && r.RetryAfter(a.Now, a.Lines[i].Want) > 0 {
			return true
		}
	}
	return false
}

// Decided reports whether the parameters of the limit of charge i decided it, and not newer rules.
func (a *Ask) Decided(i int) bool {
	return a.Charges[i].Limit.Is(a.Results[i].Machine)
}

// Answer sets the verdict after a call.
func (a *Ask) Answer(taken bool, err error) {
	a.Err = err
	switch {
	case domain.Busy(err):
		a.Verdict = Busy
	case err != nil:
		a.Verdict = Failed
	case a.Look && a.Refuser() != nil, !a.Look && !taken:
		a.Verdict = Refused
	default:
		a.Verdict = Admitted
	}
}

// Fail sets the verdict to the failure err.
func (a *Ask) Fail(err error) { a.Answer(false, err) }

// ApplyOnError returns the strictest OnError of the limits of a, whose store failed. If all allow the request, it admits a
// without a charge.
func (a *Ask) ApplyOnError() domain.OnError {
	strictest := domain.OnErrorAllow
	for i := range a.Lines {
		strictest = max(strictest, a.Lines[i].Limit.OnError)
	}
	if strictest == domain.OnErrorAllow {
		a.Verdict, a.Lines, a.Charges, a.Results = Admitted, nil, nil, nil
	}
	return strictest
}

// Spared reports whether a charge has a spare.
func (a *Ask) Spared() bool {
	for i := range a.Lines {
		if a.Charges[i].Cost > a.Lines[i].Want {
			return true
		}
	}
	return false
}

// DropSpares reduces each charge to what the request wants. It reports whether a charge had a spare.
func (a *Ask) DropSpares() (dropped bool) {
	for i := range a.Lines {
		a.Lines[i].Unbounded = 0
		if c := &a.Charges[i]; c.Cost > a.Lines[i].Want {
			c.Cost, dropped = a.Lines[i].Want, true
		}
	}
	return dropped
}

// BoundSpares lowers each spare to half of what the known state has left, because other processes need quota near the limit.
// A limit of unknown state gets no spare until a later call of BoundSpares knows the state.
func (a *Ask) BoundSpares() {
	for i := range a.Lines {
		line, c := &a.Lines[i], &a.Charges[i]
		size := max(c.Cost, line.Unbounded)
		if a.Look || size <= line.Want { // a look can share its lines with a request
			continue
		}
		if known := a.Results[i]; known.Machine != nil {
			c.Cost, line.Unbounded = min(size, max(line.Want, known.Remaining(a.Now)/2)), 0
		} else {
			c.Cost, line.Unbounded = line.Want, size
		}
	}
}

// Charge returns the charge that the caller passed.
func (a *Ask) Charge(i int) domain.Charge {
	return domain.Charge{Subject: a.Subject, Limit: a.Lines[i].Limit, Cost: a.Lines[i].Want, Force: a.Charges[i].Force}
}

// Add adds a charge of the cost want.
func (a *Ask) Add(l Line, c domain.Charge, r algo.Result) {
	a.Lines, a.Charges, a.Results = append(a.Lines, l), append(a.Charges, c), append(a.Results, r)
}

// Split moves the charges that the function rest selects out of a, into an ask for the layer below. It returns a itself if
// that is all of them.
func (a *Ask) Split(rest func(i int) bool) *Ask {
	below := &Ask{Request: a.Request, Subject: a.Subject, Shadow: a.Shadow, Err: a.Err, Counted: a.Counted,
		MayRepeat: a.MayRepeat}
	keep := &Ask{}
	for i := range a.Lines {
		to := keep
		if rest(i) {
			to = below
		}
		to.Add(a.Lines[i], a.Charges[i], a.Results[i])
	}
	if len(keep.Lines) == 0 {
		return a
	}
	a.Lines, a.Charges, a.Results = keep.Lines, keep.Charges, keep.Results
	return below
}

// Merge undoes Split, and takes over the answer to the ask below.
func (a *Ask) Merge(below *Ask) {
	if below == a {
		return
	}
	a.Request, a.Moved = below.Request, a.Moved || below.Moved // counts of an outage have another clock
	a.Lines, a.Charges, a.Results = append(a.Lines, below.Lines...), append(a.Charges, below.Charges...), append(a.Results, below.Results...)
	a.Verdict, a.Err, a.Early, a.Outage, a.Full = below.Verdict, below.Err, below.Early, below.Outage, below.Full
	a.Counted, a.NeedsShare, a.Transfer = a.Counted || below.Counted, below.NeedsShare, below.Transfer
	a.Calls, a.StoreTime, a.Clamped = a.Calls+below.Calls, a.StoreTime+below.StoreTime, a.Clamped+below.Clamped
	a.Refunds.Add(below.Refunds)
	a.Overshoot = max(a.Overshoot, below.Overshoot)
	if below.Degraded != nil {
		a.Degraded = below.Degraded
	}
}

// Correction changes what an Ask was charged, when the cost of its request is known or another subject refuses it.
type Correction struct {
	*Request
	Subject domain.Subject
	Parts   []Part
	Elapsed time.Duration // since the Take, on the monotonic clock

	Returned int // refunds that stayed in this process: a lease or a counter took them back
	Given    int // refunds of a store that returned something
	Dropped  int // refunds that were not safe
	Lost     int // corrections that the store did not make, because it failed
	Charged  int // charges of a higher cost
	Excess   []Excess
	OfShare  int64 // excess of the last charge on a local share
	Calls    int
	Err      error // why corrections were lost
}

// Part is the correction of one charge.
type Part struct {
	Line
	Charge   domain.Charge // its Cost is the correction, which is charged with Force and refunded without
	Result   algo.Result   // the result of the Take
	Done     bool
	Returned bool // a layer above the store returned the charge
}

// Excess is the part of a forced charge that exceeds the max debt.
type Excess struct {
	Limit *domain.Limit
	Cost  int64
}

// Correct returns the corrections that change the costs of a to the actual costs. It leaves out equal costs and forced
// charges.
func (a *Ask) Correct(actual func(domain.Charge) int64) (c Correction) {
	c.Subject = a.Subject
	for i, charge := range a.Charges {
		if charge.Force || charge.Cost == 0 {
			continue
		}
		more := actual(a.Charge(i)) - a.Lines[i].Want
		charge.Cost, charge.Force = max(more, -more), more > 0
		if more != 0 {
			c.Parts = append(c.Parts, Part{Line: a.Lines[i], Charge: charge, Result: a.Results[i]})
		}
	}
	return c
}

// Force counts a forced charge, of which the store did not count excess.
func (c *Correction) Force(limit *domain.Limit, excess int64) {
	c.Charged++
	if excess > 0 {
		c.Excess = append(c.Excess, Excess{limit, excess})
	}
}
