package top_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/top"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon.Add(time.Minute) }

func event(at time.Time, outcome, subject string, count int) []byte {
	return fmt.Appendf(nil, `{"time":%q,"outcome":%q,"count":%d,"subject":%q,"limit":"search"}`, at.Format(time.RFC3339Nano), outcome, count, subject)
}

// Top reads lines of the decision log, of the metrics log, of the local log and of an export of
// CloudWatch Logs.
func TestTop_Line(t *testing.T) {
	x := top.New(0, clock)
	for _, line := range []string{
		string(event(noon, "refused", "a", 5)),
		string(event(noon, "allowed", "b", 100)),
		`{"Refused":3,"_aws":{"Timestamp":1795262400000}}`,
		`{"weir":"refused","subject":"b","limit":"search","refused":2}`,
		`authorizer-1  {"weir":"refused","subject":"a","limit":"search","refused":1}`,
		`2026-11-21T12:00:00.000Z {"weir":"refused","refused":7}`,
		"", "START RequestId", `{"level":"INFO"}`, `{"weir":`,
	} {
		x.Line([]byte(line))
	}
	want := top.Table{Refused: 15, Others: 7, Skipped: 3, Most: []top.Refused{
		{Caller: top.Caller{Subject: "a", Limit: "search"}, Count: 6}, {Caller: top.Caller{Subject: "b", Limit: "search"}, Count: 2},
	}}
	if got := x.Table(10); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Lines older than the period do not count. The start of the period is exact to a tenth of its length.
func TestTop_last(t *testing.T) {
	x := top.New(10*time.Second, clock)
	for second := range 100 {
		x.Line(event(noon.Add(time.Duration(second)*time.Second), "refused", "a", 1))
	}
	x.Line(event(noon, "refused", "a", 1000)) // arrives late
	if got := x.Table(1); got.Refused != 10 || len(got.Most) != 1 || got.Most[0].Count != 10 {
		t.Errorf("got %+v, want only the 10 refusals of the last 10 seconds", got)
	}
}

// A line does not count if its clock is far ahead or if it has invalid names.
func TestTop_skipped(t *testing.T) {
	x := top.New(time.Minute, clock)
	x.Line(event(noon, "refused", "a", 1))
	x.Line(event(clock().Add(5*time.Minute+1), "refused", "a", 1))
	x.Line(fmt.Appendf(nil, `{"Refused":3,"_aws":{"Timestamp":%d}}`, clock().Add(time.Hour).UnixMilli()))
	x.Line(event(noon, "refused", strings.Repeat("a", 64), 1))
	x.Line(event(noon, "refused", strings.Repeat("a", 65), 1))
	x.Line(fmt.Appendf(nil, `{"weir":"refused","subject":"b","limit":%q,"refused":2}`, strings.Repeat("a", 65)))
	if got := x.Table(10); got.Refused != 2 || got.Skipped != 4 || len(got.Most) != 2 {
		t.Errorf("got %+v, want 2 refusals and 4 skipped lines", got)
	}
	x.Line(event(clock().Add(5*time.Minute), "refused", "b", 1))
	if got := x.Table(10); got.Refused != 1 {
		t.Errorf("got %+v, want only the new lines", got)
	}
}

// Top finds a caller with many refusals among any number of other callers. The error of its count is
// bounded.
func TestTop_bounded(t *testing.T) {
	x := top.New(0, clock)
	random := rand.New(rand.NewPCG(1, 2))
	exact := map[string]int64{}
	const lines = 200_000
	for i := range lines {
		who := fmt.Sprint("other", i)
		if random.IntN(10) == 0 {
			who = fmt.Sprint("often", random.IntN(5))
		}
		exact[who]++
		x.Line(event(noon, "refused", who, 1))
	}
	got := x.Table(5)
	if got.Refused != lines {
		t.Errorf("refusals: got %d, want %d", got.Refused, lines)
	}
	for _, r := range got.Most {
		if n := exact[r.Subject]; n < 1000 || r.Count < n || r.Count-r.Error > n || r.Error > lines/1000 {
			t.Errorf("row of the table: got %+v, want a frequently refused caller with %d refusals", r, n)
		}
	}
	if n := len(x.Table(1 << 20).Most); n != 1000 {
		t.Errorf("callers: got %d, want 1,000", n)
	}
}
