package simulate

import (
	"fmt"
	"strings"
)

// Report returns results as a Markdown table.
func Report(results []Result) string {
	var b strings.Builder
	b.WriteString("| limit | environments | above % | worst window % | below % | degraded % | calls | units | hottest/s | p99 ms | $/M " +
		"|\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		percent := func(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }
		each := func(n int64) float64 { return float64(n) / float64(max(1, r.Requests)) }
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f | %.0f | %.2f | %.2f |\n", r.Name, r.Environments,
			percent(r.over, r.due), percent(r.overMost, r.Limit), percent(r.wronglyRefused, r.due), percent(r.Degraded, r.Requests),
			each(r.calls), each(r.writes), r.hottest, r.P99.Seconds()*1000, r.Dollars)
	}
	return b.String()
}
