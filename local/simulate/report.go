package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report returns results with what was simulated and what the columns mean, as Markdown.
func Report(p Parameters, l Limits, results []Result) string {
	var b strings.Builder
	name := map[Store]string{DynamoDB: "DynamoDB", ElastiCache: "ElastiCache"}[p.Store]
	fmt.Fprintf(&b, "## %s\n\n%s requests a second by %s callers (Zipf, exponent %g), for %s after a warm-up of %s; seed %d. "+
		"A round trip takes %s (median; p99 %s), an invocation %s beside it, and a decision waits for %s at most. ",
		name, thousands(int64(p.Rate)), thousands(int64(p.Callers)), p.Exponent, p.Measured, p.Warmup, p.Seed, p.Median, p.P99, p.Invocation, p.Timeout)
	if p.Store == DynamoDB {
		fmt.Fprintf(&b, "An item takes %g write units a second. ", p.ItemWrites)
	} else {
		fmt.Fprintf(&b, "A slot takes %s ECPUs a second, the cache %s, and a script is %d. ", thousands(int64(p.SlotECPUs)), thousands(int64(p.CacheECPUs)), ecpuPerScript)
	}
	fmt.Fprintf(&b, "The limit is %s in %s for each caller, or %s for all together.\n\n", thousands(l.Each), l.Window, thousands(l.All))
	b.WriteString(tabulate(p.Store, results))
	b.WriteString("\n" + legend(p.Store))
	return b.String()
}

// thousands returns n with a comma before each three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// columns are the heads of a table of results.
func columns(store Store) []string {
	heads := []string{"limit", "allowed %", "refused %", "degraded %", "wrong %", "over", "over %", "calls", "writes", "memory %", "hottest/s", "throttled/s", "p50 ms", "p99 ms", "envs", "concurrency", "$/M"}
	if store == ElastiCache {
		heads[8] = "scripts"
	}
	return heads
}

// legend says what the columns mean.
func legend(store Store) string {
	unit := "write units"
	if store == ElastiCache {
		unit = "scripts run"
	}
	return "Of all requests: allowed and refused by the limit, and degraded, where the store did not answer in time and `on_error` decided. " +
		"Wrong is how many fewer were admitted than by an oracle that sees all requests in order, in those windows of a caller in which it was fewer. " +
		"Over is the most that was admitted too many in one window of one caller, and its share of the limit. " +
		"Calls and " + unit + " are a decision's; memory is what was refused without a call; hottest/s is the most " + unit + " of one item in a second, throttled/s the throttled calls a second. " +
		"p50 and p99 are what a decision takes, envs how many environments there were in the end, concurrency what quota of Lambda this needs (at least one for each ten requests a second), and $/M what a million requests cost: the authorizer and the store.\n"
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

// grid returns a Markdown table whose first line is the head; the first column is aligned
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
