package faults

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

var update = flag.Bool("update", false, "write the table of FAILURES.md")

const (
	tablePath  = "../../../limiter/FAILURES.md"
	tableBegin = "<!-- Written by local/lab/faults: each fault is a test. -->\n"
)

// The table in limiter/FAILURES.md equals the faults of the tests. -update writes the table.
func TestTable(t *testing.T) {
	page, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(page), tableBegin)
	if !ok {
		t.Fatalf("%s: got no line %q, want one", tablePath, tableBegin)
	}
	want := text + tableBegin + table()
	if *update {
		if err := os.WriteFile(tablePath, []byte(want), 0o644); err != nil { //nolint:gosec // every user may read the document
			t.Fatal(err)
		}
		return
	}
	got, lines := strings.Split(string(page), "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(lines)) {
		if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
			t.Fatalf("%s: lines from %d on differ from the tests; update them with go -C local/lab test ./faults -run Table -update", tablePath, i+1)
		}
	}
}

// table returns the Markdown table of all faults. A line has the faults with equal stores, answers and
// counts.
func table() string {
	type row struct{ fault, seen, count string }
	var rows []row
	where := map[row]string{} // names of the stores
	for _, store := range stores {
		for _, f := range store.faults {
			r := row{f.name, f.seen(), string(f.count)}
			if where[r] == "" {
				rows = append(rows, r)
			}
			where[r] = strings.TrimPrefix(where[r]+", "+store.name, ", ")
		}
	}
	type line struct{ stores, seen, count string }
	var lines []line
	faults := map[line][]string{}
	for _, r := range rows {
		l := line{where[r], r.seen, r.count}
		if faults[l] == nil {
			lines = append(lines, l)
		}
		faults[l] = append(faults[l], r.fault)
	}
	var b strings.Builder
	b.WriteString("\n| store | faults | what the caller sees | what is counted |\n|---|---|---|---|\n")
	for _, l := range lines {
		b.WriteString("| " + l.stores + " | " + strings.Join(faults[l], "; ") + " | " + l.seen + " | " + l.count + " |\n")
	}
	return b.String()
}

// seen describes the answers that a caller sees during f.
func (f *fault) seen() string {
	reason := "`" + string(f.sees) + "`"
	switch {
	case f.note != "":
		return f.note
	case f.sees == limiter.ReasonNone:
		return "nothing"
	case f.once:
		return reason + " once"
	case f.lives:
		return reason
	}
	return reason + ", then `" + string(limiter.ReasonBreaker) + "`"
}
