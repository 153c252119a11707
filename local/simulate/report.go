package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-limits/weir/limiter"
)

// Report returns results as Markdown, with the parameters and a legend of the columns.
func Report(p Parameters, l Limits, results []Result) string {
	var b strings.Builder
	name := map[Store]string{DynamoDB: "DynamoDB", ElastiCache: "ElastiCache"}[p.Store]
	fmt.Fprintf(&b, "## %s\n\n%s requests a second by %s callers (Zipf, exponent %g), for %s after a warm-up of %s; seed %d. "+
		"Round trip %s (p99 %s), invocation %s more, deadline %s. ",
		name, thousands(int64(p.Rate)), thousands(int64(p.Callers)), p.Exponent, p.Measured, p.Warmup, p.Seed, p.Median, p.P99, p.Invocation, p.Timeout)
	if p.Store == DynamoDB {
		fmt.Fprintf(&b, "An item accepts %g writes a second. ", p.ItemWrites)
	} else {
		fmt.Fprintf(&b, "A slot accepts %s ECPUs a second, the cache %s. A script costs %d. ", thousands(int64(p.SlotECPUs)), thousands(int64(p.CacheECPUs)), ecpuPerScript)
	}
	fmt.Fprintf(&b, "The limit is %s %s for each caller, or %s for all callers together.%s\n\n", thousands(l.Each), l.time(), thousands(l.All), l.more())
	b.WriteString(tabulate(p.Store, results))
	b.WriteString("\n" + legend)
	if slices.ContainsFunc(results, settles) {
		b.WriteString("Settling: the part of the column before it that settles requests after their answers. A settlement that changes nothing makes no call. The store can settle an answer before it charges a slightly earlier request; such an admission counts as above.\n")
	}
	return b.String()
}

// time describes the window or period, such as "a minute".
func (l Limits) time() string {
	switch {
	case l.Count == limiter.CountConcurrent:
		return "requests in flight"
	case l.Calendar.Period != "":
		return "in a " + string(l.Calendar.Period)
	}
	return "in " + l.Window.String()
}

// more describes the period, and what the limits count if they do not count requests.
func (l Limits) more() (text string) {
	if l.Calendar.Period != "" {
		text = fmt.Sprintf(" In the middle of the time, a %s of %s ends.", l.Calendar.Period, cmp.Or(l.Calendar.Zone, "UTC"))
	}
	a := l.Answers
	lasts := fmt.Sprintf("An admitted request takes %s (median; p99 %s)", a.Duration, a.DurationP99)
	switch l.Count {
	case limiter.CountCost, limiter.CountBytes:
		text += fmt.Sprintf(" It counts %s. %s, reserves %s and costs %s (median; p99 %s).", l.Count, lasts, thousands(l.Reserve), thousands(a.Cost), thousands(a.CostP99))
	case limiter.CountFailures:
		text += fmt.Sprintf(" It counts failures. %s, and %g %% fail.", lasts, 100*a.Failures)
	case limiter.CountConcurrent:
		text += fmt.Sprintf(" A request holds its slot for at most %s. %s.", l.Window, lasts)
	case limiter.CountRequests:
	}
	return text
}

// settles reports whether r's requests were settled after their answers.
func settles(r Result) bool { return r.Settled > 0 }

// thousands returns n with commas between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// columns returns the headings of the table of results, and a function for the cells of each
// column.
func columns(store Store) (heads []string, cells func(r *Result) []string) {
	unit := "writes"
	if store == ElastiCache {
		unit = "scripts"
	}
	heads = []string{"limit", "environments", "admitted %", "above %", "worst window %", "below %", "degraded %", "turned away %",
		"calls", unit, "hottest/s", "p99 ms", "$/M"}
	return heads, func(r *Result) []string {
		share := func(part, whole int64) float64 { return float64(part) / float64(max(1, whole)) }
		percent := func(part, whole int64) string { return decimals(100*share(part, whole), 2) }
		admitted := int64(0)
		for _, n := range r.Admitted {
			admitted += n
		}
		return []string{
			r.Name, strconv.Itoa(r.Environments), percent(admitted, r.Requests), percent(r.Over, r.Oracle), percent(r.OverMost, r.Limit), percent(r.WronglyRefused, r.Oracle),
			percent(r.Degraded, r.Requests), percent(r.Away, r.Requests),
			decimals(share(r.Calls, r.Requests), 3), decimals(share(r.Units, r.Requests), 3), decimals(r.Hottest, 0),
			milliseconds(r.P99), decimals(r.Dollars, 2),
		}
	}
}

const legend = "An oracle applies the algorithm to all requests in order of time. " +
	"Above: admitted requests that the algorithm refuses when it replays only the admitted requests. " +
	"Below: requests that the oracle admits in addition, in windows of a caller in which it admits more. Both are shares of the oracle's admissions. " +
	"Worst window: the most requests above in one window of one caller, as a share of the limit. " +
	"The other percentages are of all requests. Degraded: the store throttled or was too late, so the limiter refused a busy subject or `on_error` decided. Turned away: no environment was free within a second. " +
	"Calls and writes (write units) or scripts are per request. hottest/s: the most writes or scripts of one item in a second. " +
	"p99: the time of a decision. $/M: the cost of a million requests, for the authorizer and the store.\n"

func tabulate(store Store, results []Result) string {
	heads, cells := columns(store)
	settled, after := slices.ContainsFunc(results, settles), slices.Index(heads, "hottest/s")
	if settled {
		heads = slices.Insert(heads, after, "settling")
	}
	lines := [][]string{heads}
	for i := range results {
		line := cells(&results[i])
		if settled {
			line = slices.Insert(line, after, decimals(float64(results[i].Settled)/float64(max(1, results[i].Requests)), 3))
		}
		lines = append(lines, line)
	}
	return grid(lines)
}

func decimals(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }

func milliseconds(d time.Duration) string { return decimals(d.Seconds()*1000, 2) }

// grid returns a Markdown table from its head and rows. The first column is aligned left, the
// others right.
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
