package local

import (
	"math"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// The processes of an adaptive limit together send reportRate reports a second. Each sends one at an
// interval of minReport to maxReport. The store sums reports over ReportWindow.
const (
	reportRate   = 360
	minReport    = 500 * time.Millisecond
	maxReport    = time.Minute
	ReportWindow = 4 * time.Second
)

// aim is the part of the limit that processes share when demand exceeds it. The demand that they
// read varies by some percent, and the surplus of one process is not missing from another at the
// same time.
const targetUse = 0.97

// firstReports is the time in which processes that start together, and find no reports, look again.
// The first of them report then. The others learn from these how many processes there are before
// they send anything.
const firstReports = 1500 * time.Millisecond

// Span returns how long a machine counts what was admitted.
func Span(m algo.Machine) time.Duration {
	switch m := m.(type) {
	case *algo.Bucket:
		return m.Depth
	case *algo.Window:
		return m.Length
	}
	return 0
}

// Rate returns how many requests a second a machine admits in the long run.
func Rate(m algo.Machine) float64 {
	switch m := m.(type) {
	case *algo.Bucket:
		return 1 / m.Interval.Seconds()
	case *algo.Window:
		return float64(m.Requests) / m.Length.Seconds()
	}
	return 0
}

// Share is what one process may admit of an adaptive limit until its next report: the rate of all
// processes, divided by demand. The zero value knows nothing.
type Share struct {
	algo.Result       // a bucket that holds about a second of the share
	largest     int64 // cost so far, which the bucket must hold
	stage       stage
	born        algo.Instant  // instant of the first look
	cold        bool          // no process had reported then
	from        algo.Instant  // begin of the present wave of first reports
	wave        time.Duration // its length
	demand      int64         // cost of the requests here since the last report
	requests    int64         // their number
	since       algo.Instant  // instant of the last report
	interval    time.Duration
	due         algo.Instant // of the next report, or look

	own                        algo.State // of a limit on which only this process reports its demand
	recentDemand               float64    // recent demand here
	recentRequests, recentTime float64    // its number of requests, and its seconds
	rate                       float64    // demand here, in requests a second; 0: unknown
	total                      float64    // demand everywhere, in requests a second
	processes                  float64
	strict                     bool         // the counter refuses too
	until                      algo.Instant // from then on next is the rate of all processes; 0: never
	next                       float64
}

// Report is what a counter sends to the store, to be charged at At.
type Report struct {
	At    algo.Instant
	Count int64 // admitted since the last report
	// Demand and Interval are of a counter with a Share, for the reported demand of all processes
	// and, in milliseconds, for the number of processes.
	Demand   int64
	Interval time.Duration

	demand, requests int64
}

// stage is the progress of a process that joins the others.
type stage uint8

const (
	unseen  stage = iota // it has to look at the reports of others
	waiting              // there were none, so it looks again before its first report
	joining              // its first report is due
	steady
)

func times(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// start makes s wait for a second look, while the number of processes is unknown.
func (s *Share) start(now algo.Instant, spread float64) {
	s.stage, s.born, s.cold, s.since, s.interval = waiting, now, true, now, minReport
	s.from, s.wave = now.Add(minReport), firstReports
	s.due = s.from.Add(times(s.wave, spread))
}

// learn takes in the reported demand and processes, and plans the next report. random returns a
// number from 0 to 1.
func (s *Share) update(now algo.Instant, out Report, demand, processes algo.Result, random func() float64) {
	over := s.covered(now, processes).Seconds()
	used := func(r algo.Result) float64 { return float64(r.Machine.Used(r.State, now)) / over }
	s.processes = used(processes) / 1000
	m := demand.Machine
	s.own = m.Force(s.own, now, out.Demand)
	mine := float64(m.Used(s.own, now))
	defer func() { // the report of this process covers only its own interval
		s.total = max(0, used(demand)-mine/over) + s.rate
	}()
	if s.stage == unseen && s.processes == 0 {
		s.start(now, random())
		return
	}
	interval := times(time.Second, s.processes/reportRate)
	before := s.interval
	s.interval = min(max(interval, minReport), maxReport)
	switch gap := now.Sub(s.since); {
	case s.stage == unseen:
		s.stage, s.born, s.since = joining, now, now
		s.due = now.Add(minReport + times(s.interval, random()))
		return
	case s.stage == waiting:
		s.measure(s.demand, s.requests, gap, 0)
		s.mayReport(now, random)
		return
	case s.stage == joining:
		s.stage = steady
		s.measure(out.demand, out.requests, gap, 0)
		if s.cold { // it may be the first, and have seen few others
			s.interval = max(s.interval, firstReports)
		}
	case gap > 4*max(before, ReportWindow): // it was idle, so its demand is unknown
		s.measure(0, 0, 0, 0)
	case gap <= ReportWindow && now.Sub(s.born) > 2*ReportWindow: // measured as the total is
		s.measure(out.demand, out.requests, gap, 1-gap.Seconds()/ReportWindow.Seconds())
		s.rate = mine / (ReportWindow + gap/2).Seconds()
	default: // the time between a few random requests shows little
		s.measure(out.demand, out.requests, gap, max(0, 1-float64(out.requests)/16, 1-gap.Seconds()/ReportWindow.Seconds()))
	}
	s.demand, s.requests, s.since = s.demand-out.demand, s.requests-out.requests, now
	// Processes that report together would do so again, so the time is random. Small changes of the
	// interval are ignored: few reports in a window look like less demand.
	if s.interval < before*11/10 && s.interval > before*7/10 {
		s.interval = before
	}
	s.due = now.Add(times(s.interval, 0.75+random()/2))
}

// measure sets the rate by a demand, and by the given part of earlier measurements.
func (s *Share) measure(demand, requests int64, during time.Duration, before float64) {
	s.recentDemand, s.recentRequests, s.recentTime = s.recentDemand*before+float64(demand), s.recentRequests*before+float64(requests), s.recentTime*before+during.Seconds()
	if s.rate = 0; s.recentTime > 0 {
		s.rate = s.recentDemand / s.recentTime
	}
}

// mayReport decides after a look whether the first report is due now. Processes that started
// together report in waves. The size of each wave gives a steady rate of reports: any moment of the
// interval, counted from the first wave, is equally likely.
func (s *Share) mayReport(now algo.Instant, random func() float64) {
	left := s.interval - s.from.Sub(s.born.Add(minReport))
	if random()*left.Seconds() < s.wave.Seconds() {
		s.stage, s.due, s.interval = joining, now, max(s.interval, firstReports)
		return
	}
	s.from = s.from.Add(s.wave)
	s.wave = min(2*s.wave, left-s.wave)
	s.due = s.from.Add(times(s.wave, random()))
}

// covered returns the time whose reports the store sums up at now. If nobody reported when s was
// born, that is the time since the first report of the processes that started with it.
func (s *Share) covered(now algo.Instant, r algo.Result) time.Duration {
	m, ok := r.Machine.(*algo.Window)
	if !s.cold || !ok {
		return ReportWindow
	}
	// A report waits for the next request, which sends it.
	late := now.Sub(s.born) / time.Duration(max(1, s.requests))
	first, start := s.born.Add(minReport+min(late, minReport)), m.Start(m.Index(now))
	before := times(min(ReportWindow, max(0, start.Sub(first))), 1-now.Sub(start).Seconds()/ReportWindow.Seconds())
	return max(firstReports/15, before+now.Sub(max(first, start)))
}

// settle sets the share by what was admitted. own reports whether count is of the limit itself.
func (s *Share) settle(now algo.Instant, count algo.Result, own bool) {
	m, span := count.Machine, Span(count.Machine)
	ahead := min(4*s.interval, span)
	s.until, s.strict = 0, own && span >= 4*s.interval
	if !s.strict {
		s.grant(now, Rate(m))
		return
	}
	var room float64 // at the end of the time ahead, if nothing more is admitted
	switch m := m.(type) {
	case *algo.Bucket:
		room = float64(m.Burst-m.Used(count.State, now)) + ahead.Seconds()*Rate(m)
	case *algo.Window:
		at := m.At(count.State, now)
		if end := m.Start(at.Window + 1).Sub(now); !m.Sliding && end < ahead {
			s.until, s.next = now.Add(end), float64(m.Requests)/ahead.Seconds()
			ahead = max(end, time.Millisecond)
		}
		room = float64(m.Requests - m.Used(count.State, now.Add(ahead-1)))
	}
	// On average, processes last reported half an interval ago.
	unreported := s.interval.Seconds() / 2
	all := room / (ahead.Seconds() + unreported)
	if all > s.total {
		all = (room - s.total*unreported) / ahead.Seconds()
	}
	s.grant(now, max(0, all))
}

// grant sets the share of this process, where all processes may admit so many requests a second. All
// shares sum up to that.
func (s *Share) grant(now algo.Instant, all float64) {
	total, processes := max(s.total, s.rate), max(s.processes, 1)
	known := s.recentRequests / (s.recentRequests + 4) // a few requests show little: then assume the average
	own := known*s.rate + (1-known)*total/processes
	share := all / processes
	switch {
	case total >= all && total > 0:
		share = targetUse * all * own / total
	case total > 0: // half of the spare quota goes by demand, half equally
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

// take charges cost, or reports that it exceeds the share.
func (s *Share) take(now algo.Instant, cost int64, force bool) (allowed bool) {
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
	s.State, allowed = take(s.Machine, s.State, now, cost, force)
	return allowed
}

// forget removes one request of cost from the demand.
func (s *Share) forget(cost int64) {
	s.demand -= cost
	s.requests--
}

// report returns the demand and the interval to report at now, where demand is what was requested
// here since the last report.
func (s *Share) report(now algo.Instant, demand int64) (int64, time.Duration) {
	switch age := now.Sub(s.since); {
	case s.stage == joining && age > 0: // not a whole interval has passed yet
		return int64(math.Round(min(algo.MaxRequests, float64(demand)*float64(s.interval)/float64(age)))), s.interval
	case s.stage >= joining:
		return demand, min(max(age, 0), maxReport)
	}
	return demand, 0
}
