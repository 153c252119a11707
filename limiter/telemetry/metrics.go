package telemetry

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// These are the names of the metrics in Namespace. Metrics of rules have the dimension RuleDimension,
// and Exempt has ExemptionDimension. Other metrics have none; Unauthorized also exists with FunctionDimension. The
// package documentation defines each metric.
const (
	Allowed        = "Allowed"
	Refused        = "Refused"
	Degraded       = "Degraded"
	FromCache      = "FromCache"
	Busy           = "Busy"
	LocalFull      = "LocalFull"
	Evicted        = "Evicted"
	Shadowed       = "Shadowed"
	Unauthorized   = "Unauthorized"
	Failed         = "Failed"
	Latency        = "Latency"
	StoreCalls     = "StoreCalls"
	StoreLatency   = "StoreLatency"
	Overshoot      = "Overshoot"
	RefundsGiven   = "RefundsGiven"
	RefundsDropped = "RefundsDropped"
	RegionCalls    = "RegionCalls"
	TransfersLost  = "TransfersLost"
	RegionsFailed  = "RegionsFailed"

	SettlementsLost = "SettlementsLost"
	ReportsRejected = "ReportsRejected"
	CostsUnread     = "CostsUnread"
	DebtExcess      = "DebtExcess"

	RecordsIgnored    = "RecordsIgnored"
	ForeignKeys       = "ForeignKeys"
	ClaimsUncounted   = "ClaimsUncounted"
	Notices           = "Notices"
	Unmatched         = "Unmatched"
	AddressesNotFound = "AddressesNotFound"

	Clamped      = "Clamped"
	RulesRefused = "RulesRefused"
	RulesVersion = "RulesVersion"
	RulesAge     = "RulesAge"
	ClockSkew    = "ClockSkew"

	RuleAllowed  = "RuleAllowed"
	RuleRefused  = "RuleRefused"
	RuleShadowed = "RuleShadowed"
	RuleMarked   = "RuleMarked"

	Exempt = "Exempt"
)

// These are the names of dimensions: of a rule, of an exemption, and of a Lambda function.
const (
	RuleDimension      = "Rule"
	ExemptionDimension = "Exemption"
	FunctionDimension  = "FunctionName"
)

// Metrics returns the names of the metrics without a dimension; those that every line has are first.
func Metrics() []string {
	return []string{
		Allowed, Refused, Degraded, FromCache, Busy, LocalFull, Evicted,
		Shadowed, Unauthorized, Failed, Latency, StoreCalls,
		StoreLatency, Overshoot, RefundsGiven, RefundsDropped, Clamped, RegionCalls, TransfersLost, RegionsFailed,
		SettlementsLost, ReportsRejected, CostsUnread, DebtExcess,
		RulesRefused, RulesVersion, RulesAge, ClockSkew,
		RecordsIgnored, ForeignKeys, ClaimsUncounted, Notices, Unmatched, AddressesNotFound,
	}
}

// RuleMetrics returns the names of the metrics with RuleDimension.
func RuleMetrics() []string {
	return []string{RuleAllowed, RuleRefused, RuleShadowed, RuleMarked}
}

// Namespace returns the CloudWatch namespace of a deployment by its name, such as its stage.
func Namespace(deployment string) string { return "Weir/" + deployment }

// metrics are the counts by name, and the durations. The zero value is empty.
type metrics struct {
	counts                map[string]int64
	latency, storeLatency sample
}

// add adds n to a count.
func (m *metrics) add(name string, n int64) {
	if n == 0 {
		return
	}
	if m.counts == nil {
		m.counts = map[string]int64{}
	}
	m.counts[name] += n
}

// addIf adds 1 to a count if the condition holds.
func (m *metrics) addIf(holds bool, name string) {
	if holds {
		m.add(name, 1)
	}
}

// addStore counts how a decision used the store, even if the decision was not enforced.
func (m *metrics) addStore(d *limiter.Decision) {
	switch d.Reason {
	case limiter.ReasonNone, limiter.ReasonBusy, limiter.ReasonOutage: // the store works
	default:
		m.add(Degraded, 1)
	}
	if d.StoreCalls > 0 {
		m.add(StoreCalls, int64(d.StoreCalls))
		m.storeLatency.add(d.StoreTime)
	}
	m.add(Overshoot, max(0, d.Overshoot-m.counts[Overshoot])) // the largest overshoot of a decision, not a sum
	m.add(Clamped, int64(d.Clamped))
	m.add(Evicted, d.Evicted)
	m.add(RegionCalls, int64(d.Transfer.Calls))
	m.add(TransfersLost, int64(d.Transfer.Lost))
	m.add(RegionsFailed, int64(d.Transfer.Failed))
	m.addRefunds(d.Refunds)
}

func (m *metrics) addSettlement(s *Settlement) {
	m.addRefunds(s.Refunds)
	m.add(SettlementsLost, int64(s.Lost))
	m.add(ReportsRejected, int64(s.Rejected))
	m.add(CostsUnread, int64(s.Unread))
	for _, e := range s.Excess {
		m.add(DebtExcess, e.Cost)
	}
}

func (m *metrics) addRefunds(r limiter.Refunds) {
	m.add(RefundsGiven, int64(r.Given))
	m.add(RefundsDropped, int64(r.Dropped))
}

// inForce describes the rules in force. The zero value means that they are unknown.
type inForce struct {
	at        time.Time // time of the call of Rules that set these values
	version   int64
	confirmed time.Time
}

// age returns the seconds from the source's last confirmation of the rules until the time at. ok is false if
// the rules have no source.
func (f *inForce) age(at time.Time) (seconds int64, ok bool) {
	return max(0, int64(at.Sub(f.confirmed)/time.Second)), !f.confirmed.IsZero()
}

// estimate is the function ClockSkew of a store. It is nil if the store has no clock.
type estimate func() (ahead, uncertainty time.Duration, ok bool)

// skew returns the lower bound of the absolute difference between the clocks.
func (e estimate) skew() (off time.Duration, ok bool) {
	if e == nil {
		return 0, false
	}
	ahead, uncertainty, ok := e()
	return max(0, ahead.Abs()-uncertainty), ok
}

// line is a line in the embedded metric format.
type line struct {
	members     map[string]any
	definitions []definition
	rule        []definition // definitions of the metrics with RuleDimension
	exemption   []definition // definition of the metric with ExemptionDimension
	function    []definition // definition of the metric with FunctionDimension
}

// definition defines a metric in the embedded metric format.
type definition struct{ Name, Unit string }

func newLine() *line { return &line{members: map[string]any{}} }

func (l *line) add(name, unit string, value any) {
	l.members[name] = value
	l.definitions = append(l.definitions, definition{name, unit})
}

// addTotals adds the counts of m and the rules that were in force at the time at. It always adds
// Allowed and Refused, so that a ratio has a denominator. It adds other counts if they are not zero.
func (l *line) addTotals(m *metrics, rules inForce, clock estimate, at time.Time) {
	for i, name := range Metrics() {
		if n := m.counts[name]; i < 2 || n > 0 {
			l.add(name, "Count", n)
		}
	}
	if !rules.at.IsZero() {
		l.add(RulesVersion, "None", rules.version)
	}
	if age, ok := rules.age(at); ok {
		l.add(RulesAge, "Seconds", age)
	}
	if skew, ok := clock.skew(); ok {
		l.add(ClockSkew, "Milliseconds", skew.Milliseconds())
	}
	if m.latency.seen > 0 {
		l.add(Latency, "Milliseconds", m.latency.milliseconds())
	}
	if m.storeLatency.seen > 0 {
		l.add(StoreLatency, "Milliseconds", m.storeLatency.milliseconds())
	}
}

// addRule adds the counts of a rule. A line has only one rule, because the dimension Rule has one value
// in a line.
func (l *line) addRule(c ruleCounts) {
	l.members[RuleDimension] = c.name
	for i, m := range [...]struct {
		name  string
		value int64
	}{{RuleAllowed, c.allowed}, {RuleRefused, c.refused}, {RuleShadowed, c.shadowed}, {RuleMarked, c.marked}} {
		if i < 2 || m.value > 0 {
			l.members[m.name] = m.value
			l.rule = append(l.rule, definition{m.name, "Count"})
		}
	}
}

// addExemption adds the count of an exemption. A line has only one exemption.
func (l *line) addExemption(c ruleCounts) {
	l.members[ExemptionDimension], l.members[Exempt] = c.name, c.allowed
	l.exemption = append(l.exemption, definition{Exempt, "Count"})
}

// addFunction adds the name of the function, if it has one, to the count Unauthorized.
func (l *line) addFunction(name string, m *metrics) {
	if name != "" && m.counts[Unauthorized] > 0 {
		l.members[FunctionDimension] = name
		l.function = append(l.function, definition{Unauthorized, "Count"})
	}
}

func (l *line) write(out *json.Encoder, namespace string, at time.Time) {
	var directives []any
	for _, d := range [...]struct {
		dimensions  []string
		definitions []definition
	}{{[]string{}, l.definitions}, {[]string{RuleDimension}, l.rule}, {[]string{ExemptionDimension}, l.exemption},
		{[]string{FunctionDimension}, l.function}} {
		if len(d.definitions) > 0 {
			directives = append(directives, map[string]any{"Namespace": namespace, "Dimensions": [][]string{d.dimensions}, "Metrics": d.definitions})
		}
	}
	l.members["_aws"] = map[string]any{"Timestamp": at.UnixMilli(), "CloudWatchMetrics": directives}
	_ = out.Encode(l.members) // an error of the log cannot be reported anywhere else
}

// maxValues is the largest number of durations of a metric in one line. CloudWatch accepts 100.
const maxValues = 50

// sample keeps up to maxValues of the added durations. Each added duration is kept with the same
// probability. The zero value is empty.
type sample struct {
	seen   int
	values [maxValues]time.Duration
}

func (s *sample) add(d time.Duration) {
	s.seen++
	if s.seen <= maxValues {
		s.values[s.seen-1] = d
	} else if i := rand.IntN(s.seen); i < maxValues {
		s.values[i] = d
	}
}

// milliseconds returns the kept durations, rounded to microseconds.
func (s *sample) milliseconds() []float64 {
	values := make([]float64, min(s.seen, maxValues))
	for i := range values {
		values[i] = float64(s.values[i].Microseconds()) / 1000
	}
	return values
}
