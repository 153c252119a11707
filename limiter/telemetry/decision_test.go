package telemetry_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// One in so many requests has a line that counts for all of them. Refused requests have no such line, because their own
// lines count them.
func TestRecorder_Sample(t *testing.T) {
	const n = 20_000
	for oneIn, most := range map[int][2]int{0: {0, 0}, 1: {n, n}, 100: {100, 300}} {
		var out bytes.Buffer
		r := telemetry.New(&out, "dev", hash)
		r.Sample(oneIn)
		for range n {
			r.Record(outcomeOf(noon, 0, caller.Caller{User: "alice"}, limiter.Decision{Allowed: true, Limit: limit("a"), Capacity: 9, Remaining: 7},
				nil))
			r.Record(outcomeOf(noon, 0, caller.Caller{User: "alice"}, limiter.Decision{Limit: limit("a")}, nil))
		}
		got := 0
		for line := range bytes.Lines(out.Bytes()) {
			var d telemetry.DecisionLine
			if json.Unmarshal(line, &d) != nil || d.Kind != "allowed" {
				continue
			}
			got++
			if d.Count != int64(oneIn) || d.Limit != "a" || d.Remaining != 7 || d.Subject != hash(limiter.User("alice")) || !d.Time.Equal(noon) {
				t.Fatalf("line: got %s, want the decision for %d requests", line, oneIn)
			}
		}
		if got < most[0] || got > most[1] {
			t.Errorf("one in %d of %d: got %d lines, want %d to %d", oneIn, n, got, most[0], most[1])
		}
	}
}

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
