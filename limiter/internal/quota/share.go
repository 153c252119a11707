package quota

import (
	"math"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// syncRate is the highest number of syncs a second of all processes together. leastInterval is the time before the first
// sync of a process, and mostInterval bounds the interval between two syncs. The store sums the syncs of the last SyncWindow.
const (
	syncRate      = 360
	leastInterval = 500 * time.Millisecond
	mostInterval  = time.Minute
	SyncWindow    = 4 * time.Second
)

// targetUse is the part of the limit that processes share if demand exceeds the limit. The demand that
// they read varies by some percent, so their shares can sum up to more than this part.
const targetUse = 0.97

// Processes that start together find no syncs, so the number of processes is unknown to them. Each process
// reads the syncs again at a random time within firstSyncs. A few processes, chosen at random, then send
// their first sync. The other processes read these syncs before they sync, and so learn the number of
// processes.
const firstSyncs = 1500 * time.Millisecond

// Span returns how long a machine counts an admission.
func Span(m algo.Machine) time.Duration {
	if w := algo.WindowOf(m); w != nil {
		return w.Length
	}
	return algo.Leak(m, m.Capacity())
}

// Rate returns how many requests a second a machine admits in the long run.
func Rate(m algo.Machine) float64 { return float64(m.Capacity()) / Span(m).Seconds() }

// Share is what one process may admit of a limit until its next sync. All processes divide
// the rate of the limit in proportion to their demand. The zero value has read no syncs.
type Share struct {
	algo.Result       // a bucket that holds about a second of the share
	largest     int64 // the largest cost so far; the bucket must hold it
	stage       stage
	born        algo.Instant  // when this process first read the syncs
	cold        bool          // there were no syncs when this process first read them
	from        algo.Instant  // start of the current wave of first syncs
	wave        time.Duration // length of that wave
	demand      int64         // cost of the requests in this process since its last sync
	requests    int64         // number of requests since the last sync
	since       algo.Instant  // instant of the last sync
	interval    time.Duration
	due         algo.Instant // when to sync, or to read the syncs

	own                        algo.State // counts the synced demand of this process alone
	recentDemand               float64    // demand of this process during recentTime
	recentRequests, recentTime float64    // number of requests in recentTime, and recentTime in seconds
	rate                       float64    // demand of this process, in requests a second; 0 if unknown
	total                      float64    // demand of all processes, in requests a second
	processes                  float64
	strict                     bool         // the counter also refuses a request that exceeds the whole limit
	until                      algo.Instant // instant from which next replaces the rate of all processes; 0 means never
	next                       float64      // rate from the instant until on, in requests a second
}

// Sync is what a counter sends to the store. The store charges it at At.
type Sync struct {
	At    algo.Instant
	Count int64 // requests admitted since the last sync
	// The store sums Demand over all processes. It also sums Interval, in milliseconds, which gives the number of processes.
	Demand   int64
	Interval time.Duration

	demand, requests int64
}

// stage is the progress of a process until it syncs regularly.
type stage uint8

const (
	unseen  stage = iota // the process has not read the syncs of other processes
	waiting              // there were no syncs, so the process reads again before its first sync
	joining              // its first sync is due
	steady
)

func times(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// start sets the instant at which s reads the syncs a second time. At the first time there were none, so the
// number of processes is unknown.
func (s *Share) start(now algo.Instant, spread float64) {
	s.stage, s.born, s.cold, s.since, s.interval = waiting, now, true, now, leastInterval
	s.from, s.wave = now.Add(leastInterval), firstSyncs
	s.due = s.from.Add(times(s.wave, spread))
}

// update sets demand and number of processes from the syncs in the store, and plans the next sync.
// shortest is the shortest interval. random returns a number from 0 to 1.
func (s *Share) update(now algo.Instant, out Sync, demand, processes algo.Result, shortest time.Duration, random func() float64) {
	over := s.covered(now, processes).Seconds()
	used := func(r algo.Result) float64 { return float64(r.Machine.Used(r.State, now)) / over }
	s.processes = used(processes) / 1000
	m := demand.Machine
	s.own = m.Force(s.own, now, out.Demand)
	mine := float64(m.Used(s.own, now))
	defer func() { // in s.total, replace the earlier rate of this process by its current rate
		s.total = max(0, used(demand)-mine/over) + s.rate
	}()
	if s.stage == unseen && s.processes == 0 {
		s.start(now, random())
		return
	}
	interval := times(time.Second, s.processes/syncRate)
	before := s.interval
	s.interval = min(max(interval, shortest), mostInterval)
	switch gap := now.Sub(s.since); {
	case s.stage == unseen:
		s.stage, s.born, s.since = joining, now, now
		s.due = now.Add(leastInterval + times(s.interval, random()))
		return
	case s.stage == waiting:
		s.measure(s.demand, s.requests, gap, 0)
		s.maySync(now, random)
		return
	case s.stage == joining:
		s.stage = steady
		s.measure(out.demand, out.requests, gap, 0)
		if s.cold { // few other processes may have synced so far
			s.interval = max(s.interval, firstSyncs)
		}
	case gap > 4*max(before, SyncWindow): // this process was idle, so its demand is unknown
		s.measure(0, 0, 0, 0)
	case gap <= SyncWindow && now.Sub(s.born) > 2*SyncWindow: // measure the rate over the same time as the total
		s.measure(out.demand, out.requests, gap, 1-gap.Seconds()/SyncWindow.Seconds())
		s.rate = mine / (SyncWindow + gap/2).Seconds()
	default: // the rate of a few requests is inexact, so earlier requests count too
		s.measure(out.demand, out.requests, gap, max(0, 1-float64(out.requests)/16, 1-gap.Seconds()/SyncWindow.Seconds()))
	}
	s.demand, s.requests, s.since = s.demand-out.demand, s.requests-out.requests, now
	// A random time separates processes that synced together. Small changes of the interval are
	// ignored, because the number of syncs in a window varies.
	if s.interval < before*11/10 && s.interval > before*7/10 {
		s.interval = before
	}
	s.due = now.Add(times(s.interval, 0.75+random()/2))
}

// measure computes the rate from the demand. during is the time in which the demand arose, and before is the
// weight of earlier measurements.
func (s *Share) measure(demand, requests int64, during time.Duration, before float64) {
	s.recentDemand, s.recentRequests, s.recentTime = s.recentDemand*before+float64(demand), s.recentRequests*before+float64(requests),
		s.recentTime*before+during.Seconds()
	s.rate = 0
	if s.recentTime > 0 {
		s.rate = s.recentDemand / s.recentTime
	}
}

// maySync decides, after the syncs were read again, whether the first sync is due now. Processes that started
// together send their first syncs in waves. After the first wave, the times of first syncs are spread evenly over
// the interval.
func (s *Share) maySync(now algo.Instant, random func() float64) {
	left := s.interval - s.from.Sub(s.born.Add(leastInterval))
	if random()*left.Seconds() < s.wave.Seconds() {
		s.stage, s.due, s.interval = joining, now, max(s.interval, firstSyncs)
		return
	}
	s.from = s.from.Add(s.wave)
	s.wave = min(2*s.wave, left-s.wave)
	s.due = s.from.Add(times(s.wave, random()))
}

// covered returns the length of the time whose syncs are in the store's sum at the instant now. Usually this is
// SyncWindow. If there were no syncs when s was created, other processes probably started together with this one.
// In this case, the time begins with the first sync of such a process.
func (s *Share) covered(now algo.Instant, r algo.Result) time.Duration {
	m := algo.WindowOf(r.Machine)
	if !s.cold || m == nil {
		return SyncWindow
	}
	// A sync is sent only with a request. Therefore, the sync can be late by the time between two
	// requests.
	late := now.Sub(s.born) / time.Duration(max(1, s.requests))
	first, start := s.born.Add(leastInterval+min(late, leastInterval)), m.Start(m.Index(now))
	before := times(min(SyncWindow, max(0, start.Sub(first))), 1-now.Sub(start).Seconds()/SyncWindow.Seconds())
	return max(firstSyncs/15, before+now.Sub(max(first, start)))
}

// compute computes the share of this process. count is the state that counts the admissions of all processes.
// own reports whether this is the state of the limit itself, and not of a longer window
// (CounterRules.Admitted).
func (s *Share) compute(now algo.Instant, count algo.Result, own bool) {
	m, span := count.Machine, Span(count.Machine)
	ahead := min(4*s.interval, span)
	s.until, s.strict = 0, own && span >= 4*s.interval
	if !s.strict {
		s.grant(now, Rate(m))
		return
	}
	// room is the number of requests that the limit can admit from now until now plus ahead.
	var room float64
	if w := algo.WindowOf(m); w == nil {
		room = float64(m.Capacity()-m.Used(count.State, now)) + ahead.Seconds()*Rate(m)
	} else {
		at := w.At(count.State, now)
		if end := w.Start(at.Window + 1).Sub(now); !w.Sliding && end < ahead {
			s.until, s.next = now.Add(end), float64(w.Requests)/ahead.Seconds()
			ahead = max(end, time.Millisecond)
		}
		room = float64(w.Requests - w.Used(count.State, now.Add(ahead-1)))
	}
	// On average, the last sync of a process is half an interval old, so the store lacks the admissions
	// of that time.
	unsynced := s.interval.Seconds() / 2
	all := room / (ahead.Seconds() + unsynced)
	if all > s.total {
		all = (room - s.total*unsynced) / ahead.Seconds()
	}
	s.grant(now, max(0, all))
}

// grant sets the share of this process. all is the rate of all processes together, in requests a second.
// All shares sum up to this rate.
func (s *Share) grant(now algo.Instant, all float64) {
	total, processes := max(s.total, s.rate), max(s.processes, 1)
	known := s.recentRequests / (s.recentRequests + 4) // with few requests, assume the average of all processes
	own := known*s.rate + (1-known)*total/processes
	share := all / processes
	switch {
	case total >= all && total > 0:
		share = targetUse * all * own / total
	// Half of the spare quota is divided by demand, the other half equally.
	case total > 0:
		share = own + (all-total)*(own/total+1/processes)/2
	}
	share = max(share, 1e-5)
	burst := max(s.largest, int64(math.Ceil(share+2*math.Sqrt(share)))+1)
	interval := time.Duration(math.Ceil(float64(time.Second) / share))
	interval = max(1, min(interval, algo.MaxWindow/time.Duration(burst)))
	next := &algo.Bucket{Interval: interval, Burst: burst, Depth: interval * time.Duration(burst)}
	if s.Machine != nil {
		s.State = algo.Convert(s.Machine, next, s.State, now)
	}
	s.Machine = next
}

// take charges the cost if the share allows it, and reports whether it does.
func (s *Share) take(now algo.Instant, cost int64, force bool) bool {
	s.demand += cost
	s.requests++
	switch {
	case s.until != 0 && now >= s.until:
		s.until, s.largest = 0, max(s.largest, cost)
		s.grant(now, s.next)
	case cost > s.largest:
		s.largest = cost
		if b, ok := s.Machine.(*algo.Bucket); ok && cost > b.Burst && cost <= int64(algo.MaxWindow/b.Interval) {
			s.Machine = &algo.Bucket{Interval: b.Interval, Burst: cost, Depth: b.Interval * time.Duration(cost)}
		}
	}
	return s.Take(now, cost, force)
}

// forget removes a request of this cost from the demand.
func (s *Share) forget(cost int64) {
	s.demand -= cost
	s.requests--
}

// sync returns the demand and the interval for a sync at the instant now. The argument demand is the demand
// of this process since its last sync.
func (s *Share) sync(now algo.Instant, demand int64) (int64, time.Duration) {
	switch age := now.Sub(s.since); {
	case s.stage == joining && age > 0: // the first interval is shorter, so its demand is scaled up to a whole interval
		return int64(math.Round(min(algo.MaxRequests, float64(demand)*float64(s.interval)/float64(age)))), s.interval
	case s.stage >= joining:
		return demand, min(max(age, 0), mostInterval)
	}
	return demand, 0
}
