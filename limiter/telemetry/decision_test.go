package telemetry_test

import (
	"bytes"
	"encoding/json"
	"testing"

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
