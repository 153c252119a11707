package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Report returns results as Markdown: the parameters, a sentence about the limits, the columns, and what they mean. A rate
// of 0 means that each result has its own rate, callers and times.
func Report(p Parameters, about string, columns Columns, results []Result) string {
	var b strings.Builder
	name := map[Store]string{DynamoDB: "DynamoDB", ElastiCache: "ElastiCache"}[p.Store]
	if p.Regions > 0 {
		name += fmt.Sprintf(" in %d regions, %s apart", p.Regions, p.Distance)
	}
	traffic := "Each row has the requests of one caller"
	if p.Rate > 0 {
		traffic = fmt.Sprintf("%s requests a second by %s callers (Zipf, exponent %g), for %s after a warm-up of %s", thousands(int64(p.Rate)), thousands(int64(p.Callers)), p.Exponent, p.Measured, p.Warmup)
	}
	fmt.Fprintf(&b, "## %s\n\n%s; seed %d. Round trip %s (p99 %s), invocation %s more, deadline %s. ", name, traffic, p.Seed, p.Median, p.P99, p.Invocation, p.Timeout)
	if p.Store == DynamoDB {
		fmt.Fprintf(&b, "An item accepts %g writes a second. ", p.ItemWrites)
	} else {
		fmt.Fprintf(&b, "A slot accepts %s ECPUs a second, the cache %s. A script costs %d. ", thousands(int64(p.SlotECPUs)), thousands(int64(p.CacheECPUs)), ecpuPerScript)
	}
	if n := p.sample(); n > 1 {
		about += fmt.Sprintf(" Of %d requests, one was simulated: %[1]d callers became one caller with their mean rate, and limits that callers share were divided by %[1]d, which is less exact. The dollars are those of all requests.", n)
	}
	fmt.Fprintf(&b, "%s\n\n", about)
	columns.write(&b, p.Store, results)
	return b.String()
}

// About describes the limits in a sentence.
func (l Limits) About() string {
	return fmt.Sprintf("The limit is %s in %s for each caller, or %s for all callers together.", thousands(l.Each), l.Window, thousands(l.All))
}

// thousands returns n with commas between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
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
