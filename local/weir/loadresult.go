package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-limits/weir/local/load"
)

// measured is the result of a load. --json prints it.
type measured struct {
	URL string `json:"url"`
	load.Result
	// Throttled is the part of Refused that the throttle of the stage refused, and not a limit.
	Throttled int64 `json:"throttled,omitempty"`
	// AtEdge is the part of Refused that a distribution refused. Such a request costs no request of the API and no
	// invocation.
	AtEdge int64 `json:"atEdge,omitempty"`
	// Wire counts the answers by status, including answers that --polite retried.
	Wire map[int]int64 `json:"wire,omitempty"`
}

func (m measured) print(out io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(m)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d requests in %s, %.1f a second\n", m.URL, m.Requests, m.Took.Round(100*time.Microsecond), m.perSecond(m.Requests))
	fmt.Fprintf(&b, "allowed %d (%.1f a second), refused %d (%.1f a second)\n", m.Allowed, m.perSecond(m.Allowed), m.Refused, m.perSecond(m.Refused))
	if m.Throttled > 0 {
		fmt.Fprintf(&b, "refused by the throttle of the stage, and not by a limit: %d\n", m.Throttled)
	}
	if m.AtEdge > 0 {
		fmt.Fprintf(&b, "refused at the edge, in front of the API: %d; the functions decided %d\n", m.AtEdge, m.Allowed+m.Refused+m.Other-m.AtEdge-m.Throttled)
	}
	fmt.Fprintf(&b, "answers: %s\n", statuses(m.Statuses))
	if m.Wire != nil {
		fmt.Fprintf(&b, "answers, including those that were retried: %s\n", statuses(m.Wire))
	}
	if m.Failed > 0 {
		fmt.Fprintf(&b, "without an answer: %d, the first: %s\n", m.Failed, m.Failure)
	}
	if m.UnderWay > 0 {
		fmt.Fprintf(&b, "not answered when the run ended: %d\n", m.UnderWay)
	}
	if m.NotSent > 0 {
		fmt.Fprintf(&b, "not sent because all clients were busy: %d; raise --clients\n", m.NotSent)
	}
	m.latencies(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (m measured) perSecond(n int64) float64 {
	if m.Seconds == 0 {
		return 0
	}
	return float64(n) / m.Seconds
}

func statuses(counts map[int]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	var texts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%d: %d", status, counts[status]))
	}
	return strings.Join(texts, ", ")
}

// widest is the length of the histogram's longest bar in characters.
const widest = 50

func (m measured) latencies(out io.Writer) {
	if len(m.Histogram) == 0 {
		return
	}
	if unanswered := m.UnderWay + m.NotSent; unanswered > 0 {
		fmt.Fprintf(out, "\nthe row all has lower bounds: %d requests without an answer count with the time that they waited\n", unanswered)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nms\tp50\tp90\tp99\tp99.9\tmax\t")
	for _, class := range []string{load.All, load.Allowed, load.Refused} {
		if l, ok := m.Latencies[class]; ok {
			fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", class, l.P50, l.P90, l.P99, l.P999, l.Max)
		}
	}
	_ = table.Flush()
	most := int64(0)
	for _, bar := range m.Histogram {
		most = max(most, bar.Count)
	}
	fmt.Fprintln(out)
	for _, bar := range m.Histogram {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("to %9.3f ms %8d %s", bar.UpTo, bar.Count, strings.Repeat("#", int((bar.Count*widest+most-1)/most))), " "))
	}
}

func progress(r load.Result) string {
	return fmt.Sprintf("%s: %d requests, allowed %d, refused %d, other %d, under way %d", r.Took.Round(time.Second), r.Requests, r.Allowed, r.Refused, r.Other+r.Failed, r.UnderWay)
}
