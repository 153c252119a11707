package limiter

import (
	"github.com/weir-limits/weir/limiter/internal/local"
)

// counterRules returns the parameters of a counter of l.
func (l *Limit) counterRules() local.CounterRules {
	rules := local.CounterRules{Machine: l.machine, Horizon: l.Horizon, Interval: l.Spread.Sync}
	if l.reports != nil {
		rules.Admitted = l.reports.admitted.machine
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
	return []Charge{charge(l.reports.admitted, out.Count), charge(l.reports.demand, out.Demand), charge(l.reports.processes, out.Interval.Milliseconds())}
}
