package storetest

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

func usedAt(r algo.Result, now time.Time) int64 { return r.Machine.Used(r.State, algo.InstantOf(now)) }

// checkRefusal fails if the request of a caller below its limit was refused.
func (w *world) checkRefusal(e *environment, now time.Time, d limiter.Decision, charges []limiter.Charge, quiet, faultless bool) {
	if d.Limit != nil && !enforced(d.Limit) {
		w.fail("limit %s: refused a request, want none refused: %+v", d.Limit.Name, d)
	}
	for _, c := range charges {
		if !enforced(c.Limit) {
			continue
		}
		stale := d.FromCache && time.Since(e.behind[c.Subject]) <= slotsTTL
		if quiet && !stale && d.Limit == c.Limit && d.Reason != limiter.ReasonBusy && !d.Failed && w.expects(c.Limit) &&
			time.Since(w.lastRefusal(c.Subject)) > 3*time.Second {
			r := look(&w.most, now, c)
			if most := max(1, int64(c.Limit.LocalProcesses)); usedAt(r, now)+c.Cost <= c.Limit.Machine().Capacity()/most &&
				r.RetryAfter(algo.InstantOf(now), c.Cost) == 0 && len(charges) == 1 {
				w.fail("limit %s: refused a request of cost %d in environment %d although it counts at most %d: %+v", c.Limit.Name, c.Cost,
					w.indexOf(e), usedAt(r, now), d)
			}
		}
		_, bucket := c.Limit.Machine().(*algo.Bucket)
		_, slots := c.Limit.Machine().(*algo.Slots)                                         // see orphan
		if !faultless && !slots || d.Refunds.Dropped > 0 || bucket && d.Refunds.Given > 0 { // it may be charged although it was refused
			c.Force = true
			w.most.Take(algo.InstantOf(now), c.Subject, []limiter.Charge{c})
		}
	}
	for _, c := range charges {
		w.refusedAt[c.Subject] = time.Now()
	}
}

func (w *world) lastRefusal(s limiter.Subject) time.Time {
	if at := w.refusedAt[s]; at.After(w.resetAt) {
		return at
	}
	return w.resetAt
}

func look(m *Model, now time.Time, c limiter.Charge) algo.Result {
	c.Cost, c.Force = 0, false
	_, results := m.Take(algo.InstantOf(now), c.Subject, []limiter.Charge{c})
	return results[0]
}

// slotsTTL is how long a cached state of a limit of requests in flight can refuse.
const slotsTTL = 100 * time.Millisecond

// expects reports whether the limit promises to admit callers below it.
func (w *world) expects(l *limiter.Limit) bool {
	switch {
	case w.skewed, w.has(changes), l.Spread != limiter.Spread{}:
		return false
	case w.leases(l):
		return false // another environment can have a lease
	case l.Count.Of == limiter.CountConcurrent && w.faults() > 0 && w.Environments > 1:
		return false
	case w.faults() > 0 && (w.resets > 0 || w.refunded && l.Count.Of != limiter.CountConcurrent):
		return false // an outage begins with the count that the environment last saw
	}
	return true
}

// leases reports whether environments may take requests of the limit in advance. Failed calls can cause pressure.
func (w *world) leases(l *limiter.Limit) bool {
	_, log := l.Machine().(*algo.Log)
	return l.Spread.Lease > 0 || !l.Count.Settles() && !log && l.Rate.Of == 0 && w.faults() > 0
}

// checkCounts fails if the store did not count exactly the charges of a request.
func (w *world) checkCounts(d limiter.Decision, charges []limiter.Charge, x *watch, after []algo.Result, quiet bool) {
	if d.Allowed && d.Refunds.Dropped > 0 {
		w.fail("an admitted request was charged twice: %+v", d)
	}
	if !quiet || d.Reason != limiter.ReasonNone {
		return
	}
	for i, c := range charges {
		if most := usedAt(look(&w.most, x.now, c), x.now); w.faults() == 0 && !w.has(changes) && !w.skewed && w.resets == 0 &&
			enforced(c.Limit) && c.Limit.Spread == (limiter.Spread{}) && usedAt(x.before[i], x.now) > most+1 {
			w.fail("limit %s of %s: the store counts %d, want at most %d", c.Limit.Name, c.Subject, usedAt(x.before[i], x.now), most)
		}
		if w.leases(c.Limit) || c.Limit.Shadow || c.Limit.Spread != (limiter.Spread{}) || d.Superseded || w.mixed {
			continue
		}
		got, room := usedAt(after[i], x.now)-usedAt(x.before[i], x.now), x.before[i].RetryAfter(algo.InstantOf(x.now), c.Cost) == 0
		_, bucket := c.Limit.Machine().(*algo.Bucket)
		switch {
		case !d.Allowed:
			if got != 0 && !bucket && d.Refunds.Dropped == 0 {
				w.fail("limit %s: a refused request changed the count by %d, want 0: %+v", c.Limit.Name, got, d)
			}
		case c.Limit.Mark && !room:
			if got != 0 {
				w.fail("limit %s: counted %d of a request that exceeds it, want 0: %+v", c.Limit.Name, got, d)
			}
		case c.Limit.Mark && got == 0 && (w.Environments > 1 || w.skewed || w.refunded && w.faults() > 0 || // a late message can refund
			time.Since(w.lastRefusal(c.Subject)) < 3*time.Second):
		case got != c.Cost:
			w.fail("limit %s of %s: an admitted request changed the count by %d, want %d: %+v", c.Limit.Name, c.Subject, got, c.Cost, d)
		}
	}
}

// checkNotices fails if a notice is missing, or was written twice.
func (w *world) checkNotices(e *environment, now time.Time, d limiter.Decision, charges []limiter.Charge, before, after []algo.Result,
	quiet bool) {
	if w.Environments > 1 || w.skewed || w.faults() > 0 || w.mixed {
		return
	}
	for i, c := range charges {
		m, ok := c.Limit.Machine().(*algo.Window)
		if l, log := c.Limit.Machine().(*algo.Log); log { // its notices have the windows of a fixed window
			m, ok = &algo.Window{Length: l.Length, Requests: l.Requests}, true
		}
		if !ok || c.Limit.Shadow || !quiet || d.Superseded {
			continue
		}
		for _, percent := range c.Limit.Notify.List() {
			reached := func(r algo.Result) bool { return usedAt(r, now)*100 >= int64(percent)*m.Capacity() }
			from := m.Start(m.Index(algo.InstantOf(now)))
			key := notice{c.Subject, c.Limit.ID, percent, m.Capacity(), m.Start(m.Index(algo.InstantOf(now)) + 1).Sub(from), int64(from)}
			if !reached(before[i]) && reached(after[i]) && e.notices[key] == 0 {
				w.fail("limit %s: got no notice of %d%% although it counts %d of %d", c.Limit.Name, percent, usedAt(after[i], now), m.Capacity())
			}
		}
	}
	for n, times := range e.notices {
		if times > 1 && w.resets == 0 && len(w.versions) < 3 { // rules that change back repeat a notice
			w.fail("limit %s: got %d notices of %d%% in one window, want 1", n.limit, times, n.percent)
		}
	}
}

// excess returns the part of a corrected charge that exceeds the max debt.
func excess(done limiter.Settlement, c limiter.Charge) (cost int64) {
	for _, e := range done.Excess {
		if e.Limit.ID == c.Limit.ID && e.Subject == c.Subject {
			cost += e.Cost
		}
	}
	return cost
}

// checkSettlement compares the result of a settlement with the store.
func (w *world) checkSettlement(a *admitted, now time.Time, done limiter.Settlement, actual []int64, x *watch, after []algo.Result, quiet,
	faultless bool) {
	changed, ups := 0, 0
	for i, c := range a.charges {
		if actual[i] != c.Cost {
			changed++
		}
		if actual[i] > c.Cost {
			ups++
		}
	}
	if n := done.Charged + done.Refunds.Given + done.Refunds.Dropped + done.Lost; n > changed || len(done.Excess) > ups {
		w.fail("settlement: got %+v, which counts %d corrections, want at most %d", done, n, changed)
	}
	if faultless && done.Lost > 0 {
		w.fail("settlement: got %+v, want none lost", done)
	}
	if !quiet || !faultless || w.mixed || w.has(changes) {
		return
	}
	for i, c := range a.charges {
		got := usedAt(after[i], now) - usedAt(x.before[i], now)
		leased := w.leases(c.Limit)
		if changed == 1 && actual[i] < c.Cost && leased && current(c, x.before[i], now, time.Since(a.began)) && done.Refunds.Given == 1 &&
			got == 0 && time.Since(a.began) > 1500*time.Millisecond && w.faults() == 0 && usedAt(after[i], now) > 0 {
			w.fail("limit %s: a settlement after %s reports a refund that the store does not show: %+v", c.Limit.Name, time.Since(a.began), done)
		}
		if !enforced(c.Limit) || leased || c.Limit.Spread != (limiter.Spread{}) || !a.plain || !current(c, x.before[i], now,
			time.Since(a.began)) {
			continue
		}
		want := actual[i] - excess(done, c.Charge) - c.Cost
		_, bucket := c.Limit.Machine().(*algo.Bucket)
		lowered := actual[i] < c.Cost
		if got != want && (!lowered || !bucket && w.resets == 0) {
			w.fail("limit %s: a settlement from %d to %d changed the count by %d, want %d: %+v", c.Limit.Name, c.Cost, actual[i], got, want, done)
		}
	}
}

// current reports whether the store still counts a charge with its full cost.
func current(c counted, before algo.Result, now time.Time, elapsed time.Duration) bool {
	switch m := c.Limit.Machine().(type) {
	case *algo.Window:
		return c.own[0].Machine != nil && before.State.Window == c.own[0].State.Window && m.Index(algo.InstantOf(now)) == before.State.Window
	case *algo.Log:
		return elapsed < m.Length/2
	case *algo.Slots:
		return elapsed < m.Length/2
	}
	return true
}
