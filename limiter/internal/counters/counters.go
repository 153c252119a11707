// Package counters is the layer of limits that this process counts by itself (Spread.Sync). It exceeds a limit by what
// Spread.Sync states, because it sends its charges to the store afterwards.
package counters

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/quota"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Counters decides by counters of this process. If the synchronization of a counter is due, it first synchronizes it.
type Counters struct {
	Below chain.Layer
	*chain.Process
	Store chain.Layer // takes the syncs of counters
}

// rounds is the number of times that a request waits for another request that synchronizes its counter. After that, the
// store decides.
const rounds = 4

// Know implements chain.Layer. A counter is not asked, because it counts the demand of the requests that it refuses.
func (c *Counters) Know(a *chain.Ask) bool { return !counts(a) && c.Below.Know(a) }

func counts(a *chain.Ask) bool {
	for i := range a.Lines {
		if counted(&a.Lines[i]) {
			return true
		}
	}
	return false
}

func counted(l *chain.Line) bool { return l.Want > 0 && l.Limit.Spread.Sync > 0 }

// Take implements chain.Layer.
func (c *Counters) Take(a *chain.Ask) {
	if !counts(a) {
		c.Below.Take(a)
		return
	}
	s := serving{Counters: c, Ask: a}
	s.serve()
	switch {
	case s.unsynced != nil:
		s.undo()
		a.Fail(s.unsynced)
		return
	case s.refused:
		s.undo()
		a.Verdict, a.Early = chain.Refused, true
		return
	case s.decisions == len(a.Lines):
		a.Verdict = chain.Admitted
		return
	}
	below := a.Split(func(i int) bool { return !s.decided[i] })
	c.Below.Take(below)
	a.Merge(below)
	if a.Verdict != chain.Admitted {
		s.undo()
	}
}

// serving is the attempt to decide one ask by counters.
type serving struct {
	*Counters
	*chain.Ask
	decided   [domain.MaxCharges]bool // the charges that counters decided
	decisions int                     // number of these
	refused   bool                    // a counter refuses
	unsynced  error                   // why a counter cannot decide
	waitedFor *table.Tracker          // the tracker whose synchronization the request waited for
}

func (s *serving) serve() {
	for waits := 0; ; {
		wait, due := s.try(waits < rounds)
		switch {
		case wait != nil:
			waits++
			select {
			case <-wait:
			case <-s.Deadline().Done():
				return
			}
		case due >= 0:
			s.unsynced = s.synchronize(due)
			if s.unsynced != nil {
				return
			}
		default:
			return
		}
	}
}

// try lets counters decide all their charges, or none. If it decides none, it returns a channel to wait for, or the index
// of the charge whose counter this request has to synchronize. If mayWait is false, it leaves the charges that would have
// to wait to the store.
func (s *serving) try(mayWait bool) (wait <-chan struct{}, due int) {
	s.Trackers.Lock()
	defer s.Trackers.Unlock()
	due, s.unsynced, s.refused, s.Degraded = -1, nil, false, nil
	for i := range s.Lines {
		line := &s.Lines[i]
		if !counted(line) {
			continue
		}
		t := s.Trackers.Get(s.Now, s.Subject, line.Limit)
		if t == nil {
			continue
		}
		allowed, known := true, t.Counter.Known()
		decides := known && (t.Err == nil || domain.Busy(t.Err) || countsAlone(line.Limit))
		switch {
		case s.Look && !known:
			continue // the store decides
		case s.Look:
			allowed, s.Results[i] = t.Counter.Look(s.Now, line.Want, s.Charges[i].Force)
		case !decides && t.GivesUp(s.waitedFor == t):
			s.unsynced = t.Err
			continue
		case t.Renewing == nil && (!decides || t.Counter.Due(s.Now)):
			due, t.Renewing = i, make(chan struct{})
		case decides:
			allowed = s.take(i, t)
		case !mayWait:
			continue
		default:
			wait, s.waitedFor = t.Renewing, t
		}
		if wait != nil || due >= 0 {
			s.drop(true)
			s.Degraded = nil
			return wait, due
		}
		if t.Err != nil && !s.Shadow {
			s.Degraded = t.Err
		}
		s.Results[i].Clamped = false // the synchronization has counted it
		s.decided[i] = true
		s.decisions++
		s.refused = s.refused || !allowed
	}
	return nil, -1
}

// take charges the counter t. The caller holds the lock.
func (s *serving) take(i int, t *table.Tracker) (allowed bool) {
	line := &s.Lines[i]
	allowed, result, taken := t.Counter.Take(s.Now, line.Want, s.Charges[i].Force)
	s.Results[i], line.Counter = result, t
	if allowed {
		line.Taken = &taken
	}
	return allowed
}

// countsAlone reports whether a counter may continue while the store fails. The counter then enforces
// the whole limit. Therefore, it must not continue if LocalProcesses divide the limit.
func countsAlone(l *domain.Limit) bool {
	return l.Shadow || l.OnError == domain.OnErrorAllow || l.OnError == domain.OnErrorLocal && l.LocalProcesses == 1
}

// undo undoes the charges on counters.
func (s *serving) undo() {
	s.Trackers.Lock()
	defer s.Trackers.Unlock()
	s.drop(false)
}

// drop undoes the charges on counters. If the counters decide again, it also removes the demand of refused charges. The
// caller holds the lock.
func (s *serving) drop(again bool) {
	for i := range s.Lines {
		line := &s.Lines[i]
		switch {
		case line.Taken != nil:
			line.Counter.Counter.Undo(*line.Taken)
			s.Results[i] = algo.Result{} // it is a state after the charge, which says nothing about a refusal
		case line.Counter != nil && again:
			line.Counter.Counter.Repeat(line.Want)
		}
		line.Counter, line.Taken, s.decided[i] = nil, nil, false
	}
	s.decisions = 0
}

// synchronize synchronizes the counter of charge i with the store. The store makes the charges that the
// counter has not yet synchronized, even beyond the limit. It returns an error if the store failed and the counter must not
// decide without it.
func (s *serving) synchronize(i int) (unsynced error) {
	limit := s.Lines[i].Limit
	s.Trackers.Lock()
	t := s.Trackers.Get(s.Now, s.Subject, limit)
	out := t.Counter.Sync(s.Now)
	s.Trackers.Unlock()

	sync := chain.Ask{Request: s.Request, Subject: s.Subject, Syncs: true}
	add := func(l *domain.Limit, cost int64) {
		sync.Add(chain.Line{Limit: l, Want: cost}, domain.Charge{Subject: s.Subject, Limit: l, Cost: cost, Force: true}, algo.Result{})
	}
	r := t.Limit.Syncs()
	add(r.Admitted, out.Count)
	add(r.Demand, out.Demand)
	add(r.Processes, out.Interval.Milliseconds())
	sync.Err = domain.ErrUnavailable // it stays if the store panics
	panicked := true
	defer func() { s.synchronized(t, out, &sync, panicked) }()
	began := time.Now()
	s.Store.Take(&sync)
	panicked = false
	s.Calls += sync.Calls
	s.StoreTime += time.Since(began)
	err := sync.Err
	switch {
	case err == nil:
		for j, r := range sync.Results {
			if r.Clamped && sync.Charges[j].Cost > 0 {
				s.Clamped++
			}
		}
	case domain.Busy(err):
	case !t.Counter.Known() || !countsAlone(limit):
		return err
	case limit.Shadow:
		s.Log(s.Context(), s.Now, err)
	}
	return nil
}

// synchronized ends the synchronization of t, and wakes the requests that wait for it. A store that panicked may have charged
// it.
func (s *serving) synchronized(t *table.Tracker, out quota.Sync, sync *chain.Ask, panicked bool) {
	s.Trackers.Lock()
	defer s.Trackers.Unlock()
	if err := sync.Err; err == nil {
		s.Overshoot = max(s.Overshoot, t.Counter.Synced(s.Now, out, sync.Results, s.IntN))
	} else {
		charged := panicked || sync.Calls > 0 && domain.MayHaveCharged(err)
		t.Counter.Unsynced(s.Now, out, charged, domain.Busy(err), s.IntN)
	}
	t.Err = sync.Err
	t.EndRenewal()
}

// Settle implements chain.Layer. A counter returns a whole charge that it has not synchronized yet, and nothing else.
func (c *Counters) Settle(s *chain.Correction) {
	c.Trackers.Lock()
	for i := range s.Parts {
		p := &s.Parts[i]
		if p.Taken == nil || p.Done {
			continue
		}
		p.Done = true
		p.Returned = !p.Charge.Force && p.Charge.Cost == p.Want && p.Counter.Counter.Undo(*p.Taken)
		if p.Returned {
			s.Returned++
		} else {
			s.Dropped++
		}
	}
	c.Trackers.Unlock()
	c.Below.Settle(s)
}
