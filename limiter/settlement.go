package limiter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Settlement is the result of Receipt.Settle.
type Settlement struct {
	// Refunds counts the charges whose final cost is less than the cost that Take charged.
	// Refunds.Dropped counts those that could not be refunded safely, not even in part.
	Refunds Refunds
	// Charged counts the charges whose final cost is more than the cost that Take charged.
	Charged int
	// Lost is the number of corrections that a store did not make because it failed. In the store, these charges
	// keep the cost that Take charged. If the limit has OnErrorLocal, this process counts a higher cost by itself.
	Lost int
	// Excess are the costs that exceeded the max debt and were not counted.
	Excess []Excess
}

// Excess is a cost that exceeded the max debt of a limit.
type Excess struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
}

// Add adds the result of another settlement.
func (s *Settlement) Add(other Settlement) {
	s.Refunds.add(other.Refunds)
	s.Charged += other.Charged
	s.Lost += other.Lost
	s.Excess = append(s.Excess, other.Excess...)
}

// refundable contains the charges on one subject that a settlement can correct.
type refundable struct {
	store    Store
	subject  Subject
	tasks    []*task
	charges  []Charge
	results  []algo.Result
	mirrored []algo.Result // see batch
	remote   bool
}

// refundable returns the charges of b that a settlement can correct: all except charges of leases and
// forced charges. The settlement of a batch also corrects its mirror.
func (b *batch) refundable() refundable {
	if !b.taken || b.repeats {
		return refundable{}
	}
	back := refundable{store: b.store, subject: b.charges[0].Subject, remote: b.remote}
	for i := range b.tasks {
		if task := &b.tasks[i]; task.lease == nil && !task.Force && b.charges[i].Cost > 0 {
			var mirrored algo.Result
			if b.mirrored != nil {
				mirrored = b.mirrored[i]
			}
			back.add(task, b.charges[i], b.results[i], mirrored)
		}
	}
	return back
}

func (r *refundable) add(task *task, c Charge, result, mirrored algo.Result) {
	r.tasks, r.charges = append(r.tasks, task), append(r.charges, c)
	r.results, r.mirrored = append(r.results, result), append(r.mirrored, mirrored)
}

// corrections returns the charges that change the costs in r to the actual costs. It leaves out equal
// costs.
func (r *refundable) corrections(actual func(Charge) int64) refundable {
	made := refundable{store: r.store, subject: r.subject, remote: r.remote}
	for i, c := range r.charges {
		more := actual(r.tasks[i].charge()) - c.Cost
		c.Cost, c.Force = max(more, -more), more > 0
		if more != 0 {
			made.add(r.tasks[i], c, r.results[i], r.mirrored[i])
		}
	}
	return made
}

// settleStores makes corrections in the stores, for all subjects at the same time.
func (l *Limiter) settleStores(ctx context.Context, now time.Time, corrections []refundable, elapsed time.Duration, done *Settlement) {
	if len(corrections) == 0 {
		return
	}
	if timeout := l.timeoutAt(algo.InstantOf(now)); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
	}
	settled := make([]Settlement, len(corrections))
	var p parallel
	for i := range corrections {
		p.add(func() { settled[i] = l.correct(ctx, algo.InstantOf(now), corrections[i], elapsed) })
	}
	p.run(l.concurrentClock())
	for _, s := range settled {
		done.Add(s)
	}
}

// refund calls the store for a refund. A refund that fails is dropped. This admits fewer requests, never
// more.
func (l *Limiter) refund(ctx context.Context, now algo.Instant, r refundable, elapsed time.Duration) Refunds {
	s := l.correct(ctx, now, r, elapsed)
	return Refunds{s.Refunds.Given, s.Refunds.Dropped + s.Lost}
}

// A forced charge that is lost admits too many requests. For a limit with a Count, a lost refund refuses an honest
// caller, and a lost release keeps a slot taken. So a throttled settlement of such charges is repeated after pauses
// that double, until its deadline.
const (
	firstSettlePause = 10 * time.Millisecond
	lastSettlePause  = 160 * time.Millisecond
)

// repeats reports whether a settlement of r is repeated if it is throttled.
func (r *refundable) repeats() bool {
	return r.remote && slices.ContainsFunc(r.charges, func(c Charge) bool { return c.Force || c.Limit.Count.Settles() })
}

// releaseHere releases slots in the states that this process keeps. Without it, this process would count ended
// requests in an outage.
func (l *Limiter) releaseHere(now algo.Instant, r *refundable) {
	for i, c := range r.charges {
		charged := r.results[i]
		if !algo.TakesSlots(charged.Machine) || c.Force {
			continue
		}
		l.denials.release(r.subject, c.Limit.ID, c.Cost, charged)
		l.releaseFallback(now, r, i)
	}
}

// releaseFallback releases the slots of the charge with index i in the counts of an outage.
func (l *Limiter) releaseFallback(now algo.Instant, r *refundable, i int) {
	if !l.fallback.Holds(now) {
		return
	}
	c := r.charges[i]
	l.correctFallback(now, c, r.results[i], 0, nil)
	if share := r.tasks[i].original.localShare; share != nil { // the share started with a part of the slots
		c.Limit = share
		l.correctFallback(now, c, r.results[i], 0, nil)
	}
}

// correctFallback makes a correction in the counts of an outage. charged is the result of the charge. See
// fallback.settle for seen.
func (l *Limiter) correctFallback(now algo.Instant, c Charge, charged algo.Result, elapsed time.Duration, seen func(int) algo.Result) {
	var none [1]int64
	l.fallback.settle(now, c.Subject, []Charge{c}, []algo.Result{charged}, elapsed, none[:], seen)
}

// refundMirrors refunds the charges of counters in the counts of an outage, if the counters returned them.
func (l *Limiter) refundMirrors(now algo.Instant, all []served, elapsed time.Duration) {
	for i := range all {
		if s := &all[i]; s.returned && s.mirrored.Machine != nil {
			l.correctFallback(now, s.task.charge(), s.mirrored, elapsed, nil)
			s.mirrored = algo.Result{}
		}
	}
}

// correctHere makes corrections in the states that this process keeps, after the call of the store returned err. If the
// store failed, it may never count a forced charge, so this process counts the charge by itself. It does not refund in
// its own counts then, because the store can still count the charge.
func (l *Limiter) correctHere(now algo.Instant, r *refundable, elapsed time.Duration, err error) {
	for i, c := range r.charges {
		task := r.tasks[i]
		whole := Charge{Subject: task.Subject, Limit: task.original, Cost: c.Cost, Force: c.Force}
		switch {
		case c.Force:
			var seen func(int) algo.Result
			if err != nil && task.original.OnError == OnErrorLocal && !task.original.Shadow {
				seen = func(int) algo.Result { return l.denials.last(now, task.Subject, task.original) }
			}
			l.correctFallback(now, whole, algo.Result{}, 0, seen)
			l.denials.charge(now, r.subject, c.Limit.ID, c.Cost)
		case err == nil && !algo.TakesSlots(r.results[i].Machine) && r.mirrored[i].Machine != nil:
			l.correctFallback(now, whole, r.mirrored[i], elapsed, nil)
		}
	}
}

// callSettle calls the store. It repeats a throttled call if the settlement needs it.
func (l *Limiter) callSettle(ctx context.Context, now algo.Instant, r *refundable, elapsed time.Duration) (settled Settled, err error) {
	for pause := firstSettlePause; ; pause *= 2 {
		settled, err = r.store.Settle(ctx, now, r.subject, r.charges, r.results, elapsed)
		if !errors.Is(err, ErrItemThrottled) || pause > lastSettlePause || !r.repeats() {
			return settled, err
		}
		if l.clock.Sleep(ctx, pause/2+time.Duration(l.intN(int(pause)))) != nil {
			return settled, err
		}
	}
}

// correct makes all corrections on one subject.
func (l *Limiter) correct(ctx context.Context, now algo.Instant, r refundable, elapsed time.Duration) (s Settlement) {
	if r.remote { // the corrections change the state in the store
		l.active.Add(1)
		defer func() {
			l.settled.Add(1)
			l.active.Add(-1)
		}()
		l.denials.expire(r.subject)
		for _, c := range r.charges {
			if c.Force {
				l.denials.beginCharge(now, r.subject, c.Limit.ID)
			}
		}
		l.releaseHere(now, &r)
	}
	settled, err := l.callSettle(ctx, now, &r, elapsed)
	if r.remote {
		l.correctHere(now, &r, elapsed, err)
	}
	if err != nil {
		l.log.problem(ctx, now, slog.LevelWarn, "settlement lost", err)
		s.Lost = len(r.charges)
		return s
	}
	refunds, ofShare := 0, int64(0)
	for i, c := range r.charges {
		if !c.Force {
			if !c.Limit.isLocalShare {
				refunds++
			}
			continue
		}
		if c.Limit.isLocalShare { // the next charge is the same charge on the whole limit
			ofShare = settled.Excess[i]
			continue
		}
		if excess := max(ofShare, settled.Excess[i]); excess > 0 {
			s.Excess = append(s.Excess, Excess{r.tasks[i].charge().Subject, r.tasks[i].original, excess})
		}
		s.Charged, ofShare = s.Charged+1, 0
	}
	s.Refunds = Refunds{settled.Given, refunds - settled.Given}
	if s.Charged > 0 && l.notices != nil {
		l.noticesAfter(ctx, now, &r)
	}
	return s
}

// noticesAfter writes the notices of forced charges of a settlement. Store.Settle returns no states, so noticesAfter
// reads the states of limits that are near a percentage.
func (l *Limiter) noticesAfter(ctx context.Context, now algo.Instant, r *refundable) {
	for i, c := range r.charges {
		if !c.Force || !c.Limit.notifies() || r.results[i].Machine == nil || !r.tasks[i].decided(r.results[i]) ||
			!mayCross(now, c, r.results[i]) {
			continue
		}
		look, results := Charge{Subject: r.subject, Limit: c.Limit}, make([]algo.Result, 1)
		if _, err := r.store.Take(ctx, now, r.subject, []Charge{look}, results); err == nil && results[0].Machine != nil &&
			r.tasks[i].decided(results[0]) {
			l.notices.crossed(ctx, now, c, results[0])
		}
	}
}
