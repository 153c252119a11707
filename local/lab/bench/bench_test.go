package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"
)

// The smallest run of a group writes a valid report in JSON that has every contender.
func TestRun(t *testing.T) {
	for _, group := range []struct {
		name string
		rows int
	}{{"memory", len(memoryPeers()) + len(memoryWeir())}, {"functions", 6}} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-only", group.name, "-quick", "-rounds", "1", "-json"}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		var r report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Groups) != 1 || len(r.Groups[0].Tables) != 1 || len(r.Groups[0].Tables[0].Rows) != group.rows || r.Versions["golang.org/x/time"] == "" {
			t.Fatalf("report: got %s, want one group with one table of %d rows, and versions", out.String(), group.rows)
		}
		for _, row := range r.Groups[0].Tables[0].Rows {
			if ns := row.Values[0]; !(ns > 0 && ns < 1e7) {
				t.Errorf("%s: got %v ns, want above 0 and below 1e7", row.Name, ns)
			}
			if over := slices.Index(r.Groups[0].Tables[0].Columns, column{Name: "over-admitted"}); over >= 0 && row.Values[over] != 0 {
				t.Errorf("%s: got %v admitted above the limit, want 0", row.Name, row.Values[over])
			}
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
