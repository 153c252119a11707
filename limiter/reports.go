package limiter

import (
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// reports are the limits on which the processes of an adaptive limit report, in one call. They belong
// to its subject and refuse nothing.
type reports struct {
	count     *Limit // what the processes admitted; nil if the limit itself counts it
	demand    *Limit // the demand that the processes received
	processes *Limit // milliseconds: each process adds its interval to each report
}

// newReports returns the reports of a limit; nil if it is not adaptive.
func newReports(l *Limit) (*reports, error) {
	if !l.Spread.Adaptive {
		return nil, nil //nolint:nilnil // no reports are no error
	}
	perWindow := func(what string, requests, version int64) (*Limit, error) {
		return NewLimit(Limit{Name: l.Name, ID: NewID(what, l.ID.String()), Version: version, Horizon: l.Horizon,
			Rate: algo.Rate{Requests: requests, Window: local.ReportWindow}})
	}
	var r reports
	var err error
	if local.Span(l.machine) < local.ReportWindow {
		admitted := min(float64(algo.MaxRequests), local.Rate(l.machine)*local.ReportWindow.Seconds())
		if r.count, err = perWindow("admitted", int64(admitted), l.Version); err != nil {
			return nil, err
		}
	}
	if r.demand, err = perWindow("demand", algo.MaxRequests, 0); err != nil {
		return nil, err
	}
	r.processes, err = perWindow("environments", algo.MaxRequests, 0)
	return &r, err
}

// admittedApart returns the limit that counts the admissions of l, or nil if l counts them itself.
func (l *Limit) admittedApart() *Limit {
	if l.reports == nil {
		return nil
	}
	return l.reports.count
}

// admitted returns the limit that counts what the processes of an adaptive limit admit.
func (l *Limit) admitted() *Limit {
	if l.reports.count != nil {
		return l.reports.count
	}
	return l
}

// counterRules returns the parameters of the counter of l.
func (l *Limit) counterRules() local.CounterRules {
	rules := local.CounterRules{Machine: l.machine, Horizon: l.Horizon, Interval: l.Spread.Sync}
	if l.reports != nil {
		rules.Admitted = l.admitted().machine
	}
	return rules
}

// reportCharges returns the charges that send the report of a counter of l.
func (l *Limit) reportCharges(subject Subject, out local.Report) []Charge {
	charge := func(l *Limit, cost int64) Charge {
		return Charge{Subject: subject, Limit: l, Cost: cost, Force: true}
	}
	if l.reports == nil {
		return []Charge{charge(l, out.Count)}
	}
	return []Charge{charge(l.admitted(), out.Count), charge(l.reports.demand, out.Demand), charge(l.reports.processes, out.Interval.Milliseconds())}
}
