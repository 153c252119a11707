package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// notices returns the notices in the log: the percentage and the usage of each, and the end of its
// period.
func (r *ruled) notices(t *testing.T) (percents [][2]int64, ends []time.Time) {
	t.Helper()
	for line := range bytes.Lines(r.metrics.Bytes()) {
		var n struct {
			Weir, Limit   string
			Percent, Used int64
			End           time.Time
		}
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatal(err)
		}
		if n.Weir == "notice" && n.Limit == "month" {
			percents, ends = append(percents, [2]int64{n.Percent, n.Used}), append(ends, n.End)
		}
	}
	return percents, ends
}

// A monthly quota logs one notice at 80 percent and one at 100 percent in each month. A limit
// without notify makes no additional store call.
func TestNotify(t *testing.T) {
	const document = `{"rules":[
		{"endpoint":"/data","limits":{"*":{"name":"month","requests":10,"period":"month","time_zone":"Europe/Berlin","anchor":31,"per":["client"],"notify":[80,100]}}},
		{"endpoint":"/plain","limits":{"*":{"name":"plain","requests":10,"period":"month","per":["client"]}}}]}`
	onEach(t, document, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "data") }, func(t *testing.T, r *ruled) {
		// 28 February 00:00 in Berlin: the quota begins on the 31st or on the last day of a month
		end := time.Date(2100, 2, 27, 23, 0, 0, 0, time.UTC)
		wantPercents, wantEnds := [][2]int64{{80, 8}, {100, 10}}, []time.Time{end, end}
		before := r.calls.Load()
		r.want(t, "GET /plain", times(10, 200), "X-Api-Key: key-bob")
		if calls := r.calls.Load() - before; calls != 10 {
			t.Errorf("10 requests without notify: got %d store calls, want 10", calls)
		}
		before = r.calls.Load()
		r.want(t, "GET /data", append(times(10, 200), 429, 429), "X-Api-Key: key-alice")
		if calls := r.calls.Load() - before; r.kind == "REST" && calls != 10 {
			t.Errorf("10 requests with two notices: got %d store calls, want 10", calls)
		}
		if percents, ends := r.notices(t); !slices.Equal(percents, wantPercents) || !slices.Equal(ends, wantEnds) {
			t.Errorf("first month: got notices %v until %v, want %v until %v", percents, ends, wantPercents, wantEnds)
		}
		r.now = end
		r.want(t, "GET /data", times(9, 200), "X-Api-Key: key-alice")
		if percents, _ := r.notices(t); !slices.Equal(percents, append(wantPercents, [2]int64{80, 8})) {
			t.Errorf("second month: got notices %v, want one more notice, at 80 percent", percents)
		}
	})
}
