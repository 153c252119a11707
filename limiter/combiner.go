package limiter

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/parallel"
)

// combiner decides one request: it makes an ask for each subject, and admits the request if all of them are admitted.
type combiner struct {
	chain.Request
	limiter *Limiter
	asks    []ask
	notify  bool // a limit of the request has Notify

	// The memory of the asks.
	lines   []chain.Line
	charges []Charge
	results []algo.Result

	calls     parallel.Calls
	began     time.Time     // when the asks were taken; zero if no refund can follow
	storeTime time.Duration // time that the request waited for a remote store
	corrected int           // calls for refunds
	refunds   Refunds
}

// ask is what the request wants of one subject. The layers of its limits answer it.
type ask struct {
	chain.Ask
	layer chain.Layer
	over  bool // the limits are charged nothing, because they have Mark and refuse
	again bool // a breaker has rejected the ask, which is taken again
}

// separate reports whether the limit has an ask of its own.
func separate(limit *Limit) bool { return limit.Spread.Shards > 0 }

// refuses reports whether a denies the request.
func (a *ask) refuses() bool {
	return !a.over && !a.Shadow && (a.Verdict == chain.Refused || a.Verdict == chain.Busy)
}

// fails reports whether a denies the request because its store failed.
func (a *ask) fails() bool { return !a.over && !a.Shadow && a.Verdict == chain.Failed }

// fallBack decides an ask whose store of this process failed, because it is full.
func (a *ask) fallBack() {
	if a.Verdict != chain.Failed || a.Shadow {
		return
	}
	a.Full = a.ApplyOnError() == OnErrorLocal
}

// reset makes c ready for another decision. It keeps the memory of the slices.
func (c *combiner) reset() {
	*c = combiner{asks: c.asks[:0], lines: c.lines[:0], charges: c.charges[:0], results: c.results[:0]}
}

// arrange makes an ask for each subject. A limit with shards has an ask of its own.
func (c *combiner) arrange(charges []Charge) error {
	c.lines, c.results = slices.Grow(c.lines, len(charges))[:len(charges)], slices.Grow(c.results, len(charges))[:len(charges)]
	c.charges = slices.Grow(c.charges, len(charges))[:0]
	clear(c.results)
	if len(charges) == 1 {
		c.add(&charges[0])
		return c.close(0, charges[0].Limit.CountedSubject(charges[0].Subject))
	}
	for i := range charges {
		first := &charges[i]
		subject := first.Limit.CountedSubject(first.Subject)
		if !separate(first.Limit) && slices.ContainsFunc(charges[:i], func(before Charge) bool { return joins(&before, first, subject) }) {
			continue
		}
		from := len(c.charges)
		c.add(first)
		for j := i + 1; j < len(charges) && !separate(first.Limit); j++ {
			if joins(&charges[j], first, subject) {
				c.add(&charges[j])
			}
		}
		if err := c.close(from, subject); err != nil {
			return err
		}
	}
	return nil
}

// joins reports whether other is in the ask of first, which counts on the subject.
func joins(other, first *Charge, subject Subject) bool {
	return !separate(other.Limit) && other.Limit.Shadow == first.Limit.Shadow && other.Limit.CountedSubject(other.Subject) == subject
}

// add adds a charge to the ask that is being arranged.
func (c *combiner) add(charge *Charge) {
	i := len(c.charges)
	c.lines[i] = chain.Line{Limit: charge.Limit, Want: charge.Cost}
	c.charges = append(c.charges, *charge)
	last := &c.charges[i]
	last.Subject = charge.Limit.CountedSubject(charge.Subject)
	if c.Look {
		last.Cost = 0
	}
	c.notify = c.notify || charge.Limit.Notifies()
}

// close makes an ask of the charges from the index from on.
func (c *combiner) close(from int, subject Subject) error {
	to, needed := len(c.charges), 0
	for i := from; i < to; i++ {
		needed |= layersOf(c.lines[i].Limit)
	}
	if n := to - from; n > MaxCharges {
		return fmt.Errorf("%w: too many limits on one subject (got %d, want at most %d)", ErrInvalidCharge, n, MaxCharges)
	}
	c.asks = append(c.asks, ask{layer: c.limiter.layers[needed], Ask: chain.Ask{Request: &c.Request, Subject: subject,
		Shadow: c.lines[from].Limit.Shadow, Lines: c.lines[from:to:to], Charges: c.charges[from:to:to], Results: c.results[from:to:to]}})
	return nil
}

// any reports whether is holds for an ask.
func (c *combiner) any(is func(a *ask) bool) bool {
	for i := range c.asks {
		if is(&c.asks[i]) {
			return true
		}
	}
	return false
}

// leaveOutMarks leaves out the limits with Mark that deny the request, so that the other limits can be decided again. It
// returns false if other limits deny the request.
func (c *combiner) leaveOutMarks() bool {
	for i := range c.asks { // the loop does not reach asks that it appends
		if c.asks[i].refuses() && !c.leaveOut(i) {
			return false
		}
	}
	return true
}

// leaveOut leaves out the limits with Mark that refuse ask i. It returns false if other limits refuse it. If limits remain
// in the ask, the limits that were left out get an ask of their own, which also has the calls until now.
func (c *combiner) leaveOut(i int) bool {
	a := &c.asks[i]
	out := func(j int) bool { return a.Verdict == chain.Busy || a.Refuses(j) }
	outs := 0
	for j := range a.Lines {
		if !out(j) {
			continue
		}
		if !a.Lines[j].Limit.Mark {
			return false
		}
		outs++
	}
	switch outs {
	case 0: // it is unknown which limit refused
		return false
	case len(a.Lines):
		a.over = true
		return true
	}
	rest, left := c.retry(a, func(j int) bool { return !out(j) }), *a
	left.Split(func(j int) bool { return !out(j) })
	left.over = true
	c.asks[i] = rest
	c.asks = append(c.asks, left)
	return true
}

// retry makes an ask of the charges of a that the function includes selects, as the caller passed them.
func (c *combiner) retry(a *ask, includes func(i int) bool) ask {
	next := ask{layer: a.layer, Ask: chain.Ask{Request: &c.Request, Subject: a.Subject, Shadow: a.Shadow}}
	for i := range a.Lines {
		if !includes(i) {
			continue
		}
		charge := a.Charge(i)
		line := chain.Line{Limit: charge.Limit, Want: charge.Cost}
		if c.Look {
			charge.Cost = 0
		}
		next.Add(line, charge, algo.Result{})
	}
	return next
}
