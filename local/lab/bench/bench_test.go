package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"testing"
)

// The smallest run of the memory benchmarks writes a valid report in JSON.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-only", "memory", "-quick", "-rounds", "1", "-json"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 1 || len(r.Groups[0].Tables) != 1 || len(r.Groups[0].Goals) == 0 || r.Versions["golang.org/x/time"] == "" {
		t.Fatalf("report: got %s, want one group with one table, with goals and versions", out.String())
	}
	memory := r.Groups[0].Tables[0]
	for _, row := range memory.Rows {
		if ns := memory.value(row.Name, "one key, ns"); ns <= 0 || ns > 1e6 {
			t.Errorf("%s: got %v ns, want above 0 and at most 1e6", row.Name, ns)
		}
		if over := memory.value(row.Name, "over-admitted"); over != 0 {
			t.Errorf("%s: got %v admitted above the limit, want 0", row.Name, over)
		}
	}
}

func TestRun_ErrOptions(t *testing.T) {
	for _, args := range [][]string{{"-only", "disk"}, {"-rounds", "0"}, {"more"}, {"-what"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: got no error, want one", args)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []figure
		want   figure
	}{{[]figure{3}, 3}, {[]figure{9, 1, 5}, 5}, {[]figure{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.values, got, c.want)
		}
	}
}

func TestGoal(t *testing.T) {
	for _, c := range []struct {
		goal goal
		met  bool
	}{
		{atMost("x", 64, 64, 0), true}, {atMost("x", 65, 64, 0), false}, {atMost("x", none, 64, 0), false},
		{below("x", 1.49, 1.5, 2), true}, {below("x", 1.5, 1.5, 2), false},
		{atLeast("x", 0.88, 0.88, 2), true}, {atLeast("x", 0.87, 0.88, 2), false},
	} {
		if c.goal.Met != c.met {
			t.Errorf("goal %+v: got met %t, want %t", c.goal, c.goal.Met, c.met)
		}
	}
}

// Goals that Weir misses for the same reason refer to one footnote. A goal that is met has no footnote.
func TestGoalGrid(t *testing.T) {
	got := goalGrid([]goal{
		atMost("a", 1, 1, 0).because("Unused."), atMost("b", 2, 1, 0).because("Physics."), atMost("c", 3, 1, 0),
		atMost("d", 4, 1, 0).because("Physics."), atMost("e", 5, 1, 0).because("Chemistry."),
	})
	want := `| goal | want      | measured |            |
|------|-----------|----------|------------|
| a    | at most 1 | 1        | met        |
| b    | at most 1 | 2        | missed (1) |
| c    | at most 1 | 3        | MISSED     |
| d    | at most 1 | 4        | missed (1) |
| e    | at most 1 | 5        | missed (2) |

(1) Physics.

(2) Chemistry.
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A ratio is the median of the ratios of the rounds, not the ratio of the medians.
func TestTable_ratio(t *testing.T) {
	measured := table{Columns: []column{{"ns", 0}}, Rows: []row{
		{Name: "we", rounds: [][]figure{{10}, {30}, {20}}},
		{Name: "they", rounds: [][]figure{{20}, {10}, {40}}},
	}}
	if got := measured.ratio("we", "they", "ns"); got != 0.5 {
		t.Errorf("ratio of two rows: got %v, want 0.5", got)
	}
	if got := measured.ratio("we", "nobody", "ns"); !math.IsNaN(float64(got)) {
		t.Errorf("ratio to a missing row: got %v, want NaN", got)
	}
}

// Markdown leaves out the omitted rows and columns.
func TestTable_markdown(t *testing.T) {
	got := table{
		Title: "T", Corner: "who", Columns: []column{{"bytes", 0}, {"ns", 1}}, Omitted: []string{"bytes", "others"},
		Rows: []row{{Name: "we", Values: []figure{7, 1.25}}, {Name: "others", Values: []figure{7, 2}}, {Name: "they", Values: []figure{7, none}}},
	}.markdown()
	want := "## T\n\n| who  |  ns |\n|------|----:|\n| we   | 1.2 |\n| they |   - |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
