package telemetry_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// exemptLog adds up the metric Exempt by the value of its dimension.
type exemptLog map[string]int

func (l exemptLog) Write(b []byte) (int, error) {
	var line struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
		Exemption string
		Exempt    int
	}
	if err := json.Unmarshal(b, &line); err != nil {
		return 0, err
	}
	for _, d := range line.AWS.CloudWatchMetrics {
		if d.Metrics[0].Name == telemetry.Exempt && d.Dimensions[0][0] == telemetry.ExemptionDimension {
			l[line.Exemption] += line.Exempt
		}
	}
	return len(b), nil
}

// Exempt counts the allowed requests of each of the first ten exemptions, and all others together.
func TestRecorder_exempt(t *testing.T) {
	l := exemptLog{}
	r := telemetry.New(l, "dev", hash)
	record := func(name string, err error) {
		r.Record(telemetry.Outcome{Time: noon, Caller: alice, Decision: allowed, Exemption: name, Err: err})
	}
	record("health", nil) // not counted by exemption, because Rules has not yet set their names
	names := []string{"health", "b", "c", "d", "e", "f", "g", "h", "i", "office", "k", "l"}
	r.Rules(noon, 1, time.Time{}, nil, names)
	for i, name := range names {
		for range i + 1 {
			record(name, nil)
		}
	}
	record("health", caller.ErrInvalidCredential)
	record("", nil)
	r.Record(outcomeOf(noon.Add(time.Hour), 0, alice, allowed, nil))
	if len(l) != 11 || l["health"] != 1 || l["office"] != 10 || l["(others)"] != 23 {
		t.Errorf("got %v, want 1 of health, 10 of office and 23 others", l)
	}
}
