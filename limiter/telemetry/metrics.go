package telemetry

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// The names of the metrics, which are in Namespace and have no dimensions. The package's
// doc says what each counts.
const (
	Allowed       = "Allowed"
	Refused       = "Refused"
	Degraded      = "Degraded"
	Remembered    = "Remembered"
	Shadowed      = "Shadowed"
	Unauthorized  = "Unauthorized"
	Failed        = "Failed"
	StoreCalls    = "StoreCalls"
	Latency       = "Latency"
	RulesRefused  = "RulesRefused"
	RulesVersion  = "RulesVersion"
	RulesAge      = "RulesAge"
	EventsDropped = "EventsDropped"
)

// Namespace returns where CloudWatch keeps the metrics of a deployment: by the name that
// separates it from others, such as its stage.
func Namespace(deployment string) string { return "Weir/" + deployment }

// metrics is what is counted until it is written.
type metrics struct {
	allowed, refused, degraded, remembered, shadowed int64
	unauthorized, failed, storeCalls, rulesRefused   int64
	eventsDropped                                    int64

	decided   int // requests that latencies are of
	latencies [maxValues]time.Duration
}

// maxValues is how many values of one metric CloudWatch reads in a line.
const maxValues = 100

// add counts a decision that was enforced. Of one that failed no more is known.
func (m *metrics) add(took time.Duration, d *limiter.Decision) {
	if d.Reason != limiter.ReasonNone {
		m.degraded++
	}
	switch {
	case d.Failed:
		m.failed++
		return
	case !d.Allowed:
		m.refused++
		if d.Remembered {
			m.remembered++
		}
	default:
		m.allowed++
	}
	if d.Shadowed != nil {
		m.shadowed++
	}
	// Of more than can be written, each is kept with the same probability.
	m.decided++
	if m.decided <= maxValues {
		m.latencies[m.decided-1] = took
	} else if i := rand.IntN(m.decided); i < maxValues {
		m.latencies[i] = took
	}
}

// inForce is which rules decide. The zero value says nothing.
type inForce struct {
	told      time.Time // when this was known
	version   int64
	confirmed time.Time
}

// age returns for how many seconds nobody has known at the time at whether there are newer
// rules; ok is false where nobody asks.
func (f *inForce) age(at time.Time) (seconds int64, ok bool) {
	return max(0, int64(at.Sub(f.confirmed)/time.Second)), !f.confirmed.IsZero()
}

// definition is a metric in the embedded metric format.
type definition struct{ Name, Unit string }

// write writes one line in the embedded metric format, for the instant at. Allowed and
// Refused are always in it, so that a ratio has its denominator; of the others what is
// not zero.
func (m *metrics) write(out *json.Encoder, namespace string, at time.Time, rules inForce) {
	line, definitions := map[string]any{}, []definition{}
	for i, c := range [...]struct {
		name  string
		value int64
	}{
		{Allowed, m.allowed}, {Refused, m.refused},
		{Degraded, m.degraded}, {Remembered, m.remembered}, {Shadowed, m.shadowed},
		{Unauthorized, m.unauthorized}, {Failed, m.failed}, {StoreCalls, m.storeCalls}, {RulesRefused, m.rulesRefused},
		{EventsDropped, m.eventsDropped},
	} {
		if i < 2 || c.value > 0 {
			line[c.name] = c.value
			definitions = append(definitions, definition{c.name, "Count"})
		}
	}
	if !rules.told.IsZero() {
		line[RulesVersion] = rules.version
		definitions = append(definitions, definition{RulesVersion, "None"})
	}
	if age, ok := rules.age(at); ok {
		line[RulesAge] = age
		definitions = append(definitions, definition{RulesAge, "Seconds"})
	}
	if m.decided > 0 {
		line[Latency] = milliseconds(m.latencies[:min(m.decided, maxValues)])
		definitions = append(definitions, definition{Latency, "Milliseconds"})
	}
	line["_aws"] = map[string]any{
		"Timestamp": at.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace":  namespace,
			"Dimensions": [][]string{{}},
			"Metrics":    definitions,
		}},
	}
	_ = out.Encode(line) // there is nowhere to tell that standard output is gone
}

// milliseconds returns durations in milliseconds, to the microsecond.
func milliseconds(durations []time.Duration) []float64 {
	values := make([]float64, len(durations))
	for i, d := range durations {
		values[i] = float64(d.Microseconds()) / 1000
	}
	return values
}
