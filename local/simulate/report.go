package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report returns results as Markdown, with the parameters and a legend of the columns.
func Report(p Parameters, l Limits, results []Result) string {
	var b strings.Builder
	name := map[Store]string{DynamoDB: "DynamoDB", ElastiCache: "ElastiCache"}[p.Store]
	fmt.Fprintf(&b, "## %s\n\n%s requests a second by %s callers (Zipf, exponent %g), for %s after a warm-up of %s; seed %d. "+
		"A round trip takes %s (median; p99 %s), an invocation %s more, and a decision waits at most %s. ",
		name, thousands(int64(p.Rate)), thousands(int64(p.Callers)), p.Exponent, p.Measured, p.Warmup, p.Seed, p.Median, p.P99, p.Invocation, p.Timeout)
	if p.Store == DynamoDB {
		fmt.Fprintf(&b, "An item accepts %g write units a second. ", p.ItemWrites)
	} else {
		fmt.Fprintf(&b, "A slot accepts %s ECPUs a second, the cache %s. A script costs %d. ", thousands(int64(p.SlotECPUs)), thousands(int64(p.CacheECPUs)), ecpuPerScript)
	}
	fmt.Fprintf(&b, "The limit is %s in %s for each caller, or %s for all callers together.\n\n", thousands(l.Each), l.Window, thousands(l.All))
	b.WriteString(tabulate(p.Store, results))
	b.WriteString("\n" + legend(p.Store))
	return b.String()
}

// thousands returns n with commas between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// columns returns the heads of a table of results.
func columns(store Store) []string {
	heads := []string{"limit", "allowed %", "refused %", "degraded %", "wrong %", "over", "over %", "calls", "writes", "memory %", "hottest/s", "throttled/s", "p50 ms", "p99 ms", "envs", "concurrency", "$/M"}
	if store == ElastiCache {
		heads[8] = "scripts"
	}
	return heads
}

// legend explains the columns.
func legend(store Store) string {
	unit := "write units"
	if store == ElastiCache {
		unit = "scripts run"
	}
	return "Percentages are of all requests. Allowed and refused: decided by the limit. Degraded: the store did not answer in time, and `on_error` decided. " +
		"Wrong: wrongly refused. An oracle that sees all requests in order admits these in addition, in windows of a caller in which it admits more. " +
		"Over: the most that was admitted over the limit in one window of one caller, and its share of the limit. " +
		"Calls and " + unit + " are per decision. Memory: refused from the denial cache, without a call. hottest/s: the most " + unit + " of one item in a second. throttled/s: throttled calls a second. " +
		"p50 and p99: time of a decision. envs: environments at the end. concurrency: the Lambda quota that this needs (at least one for each ten requests a second). $/M: the cost of a million requests, the authorizer and the store.\n"
}

// tabulate returns results as a table.
func tabulate(store Store, results []Result) string {
	cells := [][]string{columns(store)}
	away := slices.ContainsFunc(results, func(r Result) bool { return r.Away > 0 })
	if away {
		cells[0] = append(cells[0], "turned away %")
	}
	for _, r := range results {
		n := float64(max(1, r.Requests))
		percent := func(of int64) string { return decimals(100*float64(of)/n, 2) }
		line := []string{
			r.Name, percent(r.Allowed), percent(r.Refused), percent(r.Degraded), percent(r.WronglyRefused),
			strconv.FormatInt(r.OverMost, 10), decimals(100*float64(r.OverMost)/float64(r.Limit), 1),
			decimals(float64(r.Calls)/n, 3), decimals(float64(r.Units)/n, 3), percent(r.Remembered),
			decimals(r.Hottest, 0), decimals(r.Throttled, 0), milliseconds(r.P50), milliseconds(r.P99),
			strconv.Itoa(r.Environments), strconv.Itoa(r.Concurrency), decimals(r.Dollars, 2),
		}
		if away {
			line = append(line, percent(r.Away))
		}
		cells = append(cells, line)
	}
	return grid(cells)
}

func decimals(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }

func milliseconds(d time.Duration) string { return decimals(d.Seconds()*1000, 2) }

// grid returns a Markdown table. The first line is the head. The first column is aligned
// left, the others right.
func grid(cells [][]string) string {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	for n, line := range cells {
		b.WriteString("|")
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(&b, " %s%s |", cell, pad)
			} else {
				fmt.Fprintf(&b, " %s%s |", pad, cell)
			}
		}
		b.WriteString("\n")
		if n > 0 {
			continue
		}
		b.WriteString("|" + strings.Repeat("-", widths[0]+2) + "|")
		for _, w := range widths[1:] {
			b.WriteString(strings.Repeat("-", w+1) + ":|")
		}
		b.WriteString("\n")
	}
	return b.String()
}
