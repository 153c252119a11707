package faults

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

var update = flag.Bool("update", false, "write the tables of FAILURES.md")

const (
	tablePath  = "../../limiter/FAILURES.md"
	tableBegin = "<!-- Written by local/faults: each line is a test, and each test a line. -->\n"
)

// The tables in limiter/FAILURES.md equal the faults of the tests. -update writes the tables.
func TestTable(t *testing.T) {
	page, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(page), tableBegin)
	if !ok {
		t.Fatalf("%s: got no line %q, want one", tablePath, tableBegin)
	}
	want := text + tableBegin + tables()
	if *update {
		if err := os.WriteFile(tablePath, []byte(want), 0o644); err != nil { //nolint:gosec // every user may read the document
			t.Fatal(err)
		}
		return
	}
	got, lines := strings.Split(string(page), "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(lines)) {
		if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
			t.Fatalf("%s: lines from %d on differ from the tests; update them with go test ./local/faults -run Table -update", tablePath, i+1)
		}
	}
}

// tables returns one Markdown table of faults for each store.
func tables() string {
	var b strings.Builder
	for _, store := range stores {
		b.WriteString("\n### " + store.name + "\n\n| fault | what the caller sees | what is counted |\n|---|---|---|\n")
		for _, f := range store.faults {
			b.WriteString("| " + f.name + " | " + f.seen() + " | " + string(f.count) + " |\n")
		}
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
