package limiter

import (
	"math"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// The environments of an adaptive limit together send reportRate reports a second, each of them
// one at an interval of minReport to maxReport. The store sums reports over reportWindow.
const (
	reportRate   = 360
	minReport    = 500 * time.Millisecond
	maxReport    = time.Minute
	reportWindow = 4 * time.Second
)

// aim is what environments share of the limit where more is asked for: the demand that they read
// varies by some percent, and what one has too much another does not lack at the same time.
const aim = 0.97

// firstReports is the time in which environments that start together, and find that nobody
// reports, look again. The first of them report then, and the rest learn from those how many
// they are before they send anything.
const firstReports = 1500 * time.Millisecond

// reports is what the environments of an adaptive limit report, in one call: limits of its subject
// that are charged and refuse nobody.
type reports struct {
	count        *Limit // what they admitted: the limit itself if its window is long enough, nil then
	demand       *Limit // what they were asked for
	environments *Limit // in milliseconds: each adds its interval to each report
}

func newReports(l *Limit) (*reports, error) {
	if !l.Spread.Adaptive {
		return nil, nil //nolint:nilnil // no reports are no error
	}
	perWindow := func(what string, requests, version int64) (*Limit, error) {
		return NewLimit(Limit{Name: l.Name, ID: NewID(what, l.ID.String()), Version: version, Horizon: l.Horizon,
			Rate: algo.Rate{Requests: requests, Window: reportWindow}})
	}
	var r reports
	var err error
	if spanOf(l.machine) < reportWindow {
		admitted := min(float64(algo.MaxRequests), rateOf(l.machine)*reportWindow.Seconds())
		if r.count, err = perWindow("admitted", int64(admitted), l.Version); err != nil {
			return nil, err
		}
	}
	if r.demand, err = perWindow("demand", algo.MaxRequests, 0); err != nil {
		return nil, err
	}
	r.environments, err = perWindow("environments", algo.MaxRequests, 0)
	return &r, err
}

// admittedApart returns the limit that counts what is admitted of l, if that is another one.
func (l *Limit) admittedApart() *Limit {
	if l.reports == nil {
		return nil
	}
	return l.reports.count
}

// admitted returns the limit that counts what the environments of l admit.
func (l *Limit) admitted() *Limit {
	if l.reports.count != nil {
		return l.reports.count
	}
	return l
}

// spanOf returns for how long a machine remembers what was admitted.
func spanOf(m algo.Machine) time.Duration {
	switch m := m.(type) {
	case *algo.Bucket:
		return m.Depth
	case *algo.Window:
		return m.Length
	}
	return 0
}

// rateOf returns how many requests a second a machine admits in the long run.
func rateOf(m algo.Machine) float64 {
	switch m := m.(type) {
	case *algo.Bucket:
		return 1 / m.Interval.Seconds()
	case *algo.Window:
		return float64(m.Requests) / m.Length.Seconds()
	}
	return 0
}

// portion is what one environment may admit of an adaptive limit until its next report: its share
// of the rate at which all of them may, by its share of the demand. The zero value knows nothing.
type portion struct {
	algo.Result               // a bucket that holds about a second of the share
	largest     int64         // cost so far, which the bucket must hold
	stage       stage         //
	born        algo.Instant  // when the first look was
	cold        bool          // nobody reported then
	from        algo.Instant  // when the present wave of first reports begins
	wave        time.Duration // and how long it is
	demand      int64         // asked for here since the last report
	since       algo.Instant  // when that was
	interval    time.Duration
	due         algo.Instant // of the next report, or look

	requests     int64      // that demand is of
	own          algo.State // of a subject that only this environment reports its demand to
	asked        float64    // here, lately, by how many requests, and during how many seconds
	by, during   float64
	rate         float64 // requests a second asked for here; 0: not known
	total        float64 // requests a second asked for everywhere
	environments float64
	strict       bool         // the counter refuses too
	until        algo.Instant // from when next is the rate of all; 0: never
	next         float64
}

// stage is how far an environment has come.
type stage uint8

const (
	unseen  stage = iota // it has to look what others report
	waiting              // nobody did, and it looks again before its first report
	joining              // its first report is due
	steady
)

// report is what an account sends to the store.
type report struct {
	charges []Charge
	at      algo.Instant // as of when
	sent    int64        // of the counter
	// Of the portion.
	demand, requests int64
}

// report takes what is pending on its way to the store.
func (a *account) report(now algo.Instant, subject Subject) (out report) {
	charge := func(l *Limit, cost int64) {
		out.charges = append(out.charges, Charge{Subject: subject, Limit: l, Cost: cost, Force: true})
	}
	p := a.portion
	switch {
	case p == nil:
		out.sent, out.at = a.counter.send(now)
		charge(a.limit, out.sent)
		return out
	case p.stage < joining:
		out.at = now
	default:
		out.demand, out.requests = p.demand, p.requests
		out.at = now // for the demand is of now
		if out.sent, _ = a.counter.send(now); a.counter.charged.Add(a.limit.machine.Horizon()) <= now {
			out.sent = 0 // which no longer counts
		}
	}
	demand, interval := out.demand, time.Duration(0)
	switch age := now.Sub(p.since); {
	case p.stage == joining && age > 0: // it has not asked for a whole interval yet
		interval = p.interval
		demand = int64(math.Round(min(algo.MaxRequests, float64(demand)*float64(interval)/float64(age))))
	case p.stage >= joining:
		interval = min(max(age, 0), maxReport)
	}
	charge(a.limit.admitted(), out.sent)
	charge(a.limit.reports.demand, demand)
	charge(a.limit.reports.environments, interval.Milliseconds())
	return out
}

// reported takes in what the store holds after a report. It returns how far that is past the limit.
func (a *account) reported(now algo.Instant, out report, results []algo.Result, intN func(int) int) (overshoot int64) {
	overshoot = a.counter.sync(now, results[0])
	if p := a.portion; p != nil {
		p.learn(now, out, results, func() float64 { return float64(intN(1<<20)) / (1 << 20) })
		p.settle(now, results[0], a.limit.reports.count == nil)
	}
	return overshoot
}

// unreported takes back what was not answered. charged says that the store may have charged it.
func (a *account) unreported(now algo.Instant, out report, charged, busy bool, intN func(int) int) {
	a.counter.unsent(now, out.sent, charged)
	p := a.portion
	if p == nil {
		return
	}
	switch spread := float64(intN(1<<20)) / (1 << 20); {
	case p.stage == unseen && busy: // so others report; until it can see how many, it is as if alone
		m := a.limit.admitted().machine
		a.counter.Result = algo.Result{Machine: m}
		p.start(now, spread)
		p.settle(now, a.counter.Result, a.limit.reports.count == nil)
	case busy:
		p.interval = min(2*max(p.interval, minReport), maxReport)
		p.due = now.Add(p.interval/2 + times(p.interval, spread))
	default:
		p.due = now.Add(max(p.interval, minReport))
	}
	if charged {
		p.demand, p.requests, p.since = p.demand-out.demand, p.requests-out.requests, now
	}
}

func times(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// start makes p wait for a second look, in a population of which nothing is known.
func (p *portion) start(now algo.Instant, spread float64) {
	p.stage, p.born, p.cold, p.since, p.interval = waiting, now, true, now, minReport
	p.from, p.wave = now.Add(minReport), firstReports
	p.due = p.from.Add(times(p.wave, spread))
}

// learn takes in who reports, and plans the next report. random returns a number from 0 to 1.
func (p *portion) learn(now algo.Instant, out report, results []algo.Result, random func() float64) {
	over := p.covered(now, results[2]).Seconds()
	used := func(i int) float64 { return float64(results[i].Machine.Used(results[i].State, now)) / over }
	p.environments = used(2) / 1000
	m := results[1].Machine
	p.own = m.Force(p.own, now, out.charges[1].Cost)
	mine := float64(m.Used(p.own, now))
	defer func() { // what was just reported here stands for a whole interval of this environment alone
		p.total = max(0, used(1)-mine/over) + p.rate
	}()
	if p.stage == unseen && p.environments == 0 {
		p.start(now, random())
		return
	}
	interval := times(time.Second, p.environments/reportRate)
	before := p.interval
	p.interval = min(max(interval, minReport), maxReport)
	switch gap := now.Sub(p.since); {
	case p.stage == unseen:
		p.stage, p.born, p.since = joining, now, now
		p.due = now.Add(minReport + times(p.interval, random()))
		return
	case p.stage == waiting:
		p.measure(p.demand, p.requests, gap, 0)
		p.mayReport(now, random)
		return
	case p.stage == joining:
		p.stage = steady
		p.measure(out.demand, out.requests, gap, 0)
		if p.cold { // it may have been the first, and have seen few
			p.interval = max(p.interval, firstReports)
		}
	case gap > 4*max(before, reportWindow): // it was idle: what it will be asked for is not known
		p.measure(0, 0, 0, 0)
	case gap <= reportWindow && now.Sub(p.born) > 2*reportWindow: // measured as the total is
		p.measure(out.demand, out.requests, gap, 1-gap.Seconds()/reportWindow.Seconds())
		p.rate = mine / (reportWindow + gap/2).Seconds()
	default: // of few requests at random times, the time between two says little
		p.measure(out.demand, out.requests, gap, max(0, 1-float64(out.requests)/16, 1-gap.Seconds()/reportWindow.Seconds()))
	}
	p.demand, p.requests, p.since = p.demand-out.demand, p.requests-out.requests, now
	// Where many reported at once they would again, and where few did demand would seem to be less:
	// so the time is random, and the interval stays as long as it will do.
	if p.interval < before*11/10 && p.interval > before*7/10 {
		p.interval = before
	}
	p.due = now.Add(times(p.interval, 0.75+random()/2))
}

// measure sets the rate by a demand, and by so much of what was measured before.
func (p *portion) measure(demand, requests int64, during time.Duration, before float64) {
	p.asked, p.by, p.during = p.asked*before+float64(demand), p.by*before+float64(requests), p.during*before+during.Seconds()
	if p.rate = 0; p.during > 0 {
		p.rate = p.asked / p.during
	}
}

// mayReport decides after a look whether the first report is due now. Of those who started
// together and wait for that, so many report in each wave that reports come at a steady rate: one
// that is due within the interval, counted from the first wave, is as likely in any moment of it.
func (p *portion) mayReport(now algo.Instant, random func() float64) {
	left := p.interval - p.from.Sub(p.born.Add(minReport))
	if random()*left.Seconds() < p.wave.Seconds() {
		p.stage, p.due, p.interval = joining, now, max(p.interval, firstReports)
		return
	}
	p.from = p.from.Add(p.wave)
	p.wave = min(2*p.wave, left-p.wave)
	p.due = p.from.Add(times(p.wave, random()))
}

// covered returns of how much time the store sums up reports at now. Where nobody reported when p
// was born, that is the time since the first of those who started with it did.
func (p *portion) covered(now algo.Instant, r algo.Result) time.Duration {
	m, ok := r.Machine.(*algo.Window)
	if !p.cold || !ok {
		return reportWindow
	}
	// A report is due for some time until a request comes that brings it.
	late := now.Sub(p.born) / time.Duration(max(1, p.requests))
	first, start := p.born.Add(minReport+min(late, minReport)), m.Start(m.Index(now))
	before := times(min(reportWindow, max(0, start.Sub(first))), 1-now.Sub(start).Seconds()/reportWindow.Seconds())
	return max(firstReports/15, before+now.Sub(max(first, start)))
}

// settle sets the share by what has been admitted, if own says that the limit itself counts that.
func (p *portion) settle(now algo.Instant, count algo.Result, own bool) {
	m, span := count.Machine, spanOf(count.Machine)
	ahead := min(4*p.interval, span)
	p.until, p.strict = 0, own && span >= 4*p.interval
	if !p.strict {
		p.grant(now, rateOf(m))
		return
	}
	var room float64 // at the end of what is ahead, if nothing more were admitted
	switch m := m.(type) {
	case *algo.Bucket:
		room = float64(m.Burst-m.Used(count.State, now)) + ahead.Seconds()*rateOf(m)
	case *algo.Window:
		at := m.At(count.State, now)
		if end := m.Start(at.Window + 1).Sub(now); !m.Sliding && end < ahead {
			p.until, p.next = now.Add(end), float64(m.Requests)/ahead.Seconds()
			ahead = max(end, time.Millisecond)
		}
		room = float64(m.Requests - m.Used(count.State, now.Add(ahead-1)))
	}
	// On average environments have not reported for half an interval.
	unreported := p.interval.Seconds() / 2
	all := room / (ahead.Seconds() + unreported)
	if all > p.total {
		all = (room - p.total*unreported) / ahead.Seconds()
	}
	p.grant(now, max(0, all))
}

// grant sets the share of this environment where all may admit so many requests a second. The
// shares of all sum up to that.
func (p *portion) grant(now algo.Instant, all float64) {
	total, environments := max(p.total, p.rate), max(p.environments, 1)
	known := p.by / (p.by + 4) // of few requests little is known: then it is taken to be as the others are
	own := known*p.rate + (1-known)*total/environments
	share := all / environments
	switch {
	case total >= all && total > 0:
		share = aim * all * own / total
	case total > 0: // what is to spare goes half by demand, and half to each alike
		share = own + (all-total)*(own/total+1/environments)/2
	}
	share = max(share, 1e-5)
	burst := max(p.largest, int64(math.Ceil(share+2*math.Sqrt(share)))+1)
	interval := time.Duration(math.Ceil(float64(time.Second) / share))
	interval = max(1, min(interval, algo.MaxWindow/time.Duration(burst)))
	next := &algo.Bucket{Interval: interval, Burst: burst, Depth: interval * time.Duration(burst)}
	if p.Machine != nil {
		p.State = algo.Convert(p.Machine, next, p.State, now)
	}
	p.Machine = next
}

// take charges a cost, or reports that it is more than the share.
func (p *portion) take(now algo.Instant, cost int64, force bool) (allowed bool) {
	p.demand += cost
	p.requests++
	switch {
	case p.until != 0 && now >= p.until:
		p.until, p.largest = 0, max(p.largest, cost)
		p.grant(now, p.next)
	case cost > p.largest:
		p.largest = cost
		if b, ok := p.Machine.(*algo.Bucket); ok && cost > b.Burst && cost <= int64(algo.MaxWindow/b.Interval) {
			p.Machine = &algo.Bucket{Interval: b.Interval, Burst: cost, Depth: b.Interval * time.Duration(cost)}
		}
	}
	p.State, allowed = Charge{Cost: cost, Force: force}.Apply(p.Machine, p.State, now)
	return allowed
}

// undo takes back a charge that was allowed: it was not asked for.
func (p *portion) undo(k *kept) {
	p.unask(k.item.want)
	p.State = undone(p.Machine, p.State, k.before.share, k.after.share, k.item.want)
}

// unask forgets that a request asked for a cost.
func (p *portion) unask(cost int64) {
	p.demand -= cost
	p.requests--
}

// newPortion returns the portion of a limit; nil if it has none.
func newPortion(l *Limit) *portion {
	if l.reports == nil {
		return nil
	}
	return &portion{}
}
