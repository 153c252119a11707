package simulate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Columns are the columns of a report. Make them with ParseColumns.
type Columns []column

type column struct {
	name  string
	means string // a sentence for readers; empty if the name says it
	cell  func(r *Result) string
}

// AllColumns selects all columns.
const AllColumns = "all"

// ParseColumns returns the columns with the names, in this order. The name AllColumns selects all. Without names, it
// returns the four columns by which one chooses a configuration or, for regions, those that compare them with one store.
// For several numbers of environments, it adds that number, and for a distribution that of its refusals.
func ParseColumns(names []string, p Parameters, environments bool) (list Columns, err error) {
	if slices.Equal(names, []string{AllColumns}) {
		if p.Edge > 0 {
			return columns, nil
		}
		return columns.without(atEdge), nil
	}
	if len(names) == 0 {
		names = []string{"limit", "admitted %", "wrong %", "$ a month"}
		if p.Regions > 0 {
			names = []string{"limit", "admitted %", ofOneStore, "above %", betweenRegions}
		}
		if p.Edge > 0 {
			names = slices.Insert(names, 3, atEdge)
		}
		if environments {
			names = slices.Insert(names, 1, "environments")
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		if i < 0 {
			all := make([]string, len(columns))
			for i, c := range columns {
				all[i] = c.name
			}
			return nil, fmt.Errorf("columns: got %q, want %s, or some of: %s", name, AllColumns, strings.Join(all, ", "))
		}
		list = append(list, columns[i])
	}
	return list, nil
}

const (
	settlements    = "settling"
	atEdge         = "at the edge %"
	ofOneStore     = "of one store %"
	betweenRegions = "calls between regions"
)

const oracleMeans = "An oracle applies the limits to all requests in order of time. "

var columns = Columns{
	{"limit", "", func(r *Result) string {
		if r.Unfilled {
			return r.Name + " *"
		}
		return r.Name
	}},
	{"environments", "", func(r *Result) string { return strconv.Itoa(r.Environments) }},
	{"admitted %", "", func(r *Result) string {
		return percent(r.admitted(), r.Requests)
	}},
	{"wrong %", oracleMeans + "Wrong: of all requests, those above the limits that were admitted, those below that were refused, and those that found no free environment. ",
		func(r *Result) string { return percent(r.Over+r.WronglyRefused+r.Away, r.Requests) }},
	{"above %", oracleMeans + "Above: admitted requests that the algorithm refuses when it replays only the admitted requests, in percent of the oracle's admissions. ",
		func(r *Result) string { return percent(r.Over, r.Oracle) }},
	{"worst window %", "Worst window: the most requests above in one window of one caller, in percent of the limit. ",
		func(r *Result) string { return percent(r.OverMost, r.Limit) }},
	{"below %", "Below: requests that the oracle admits in addition, in windows of a caller in which it admits more, in percent of its admissions. ",
		func(r *Result) string { return percent(r.WronglyRefused, r.Oracle) }},
	{"degraded %", "Degraded: of all requests, those for which the store throttled or was too late, so the limiter refused a busy subject or `on_error` decided. ",
		func(r *Result) string { return percent(r.Degraded, r.Requests) }},
	{atEdge, "At the edge: of all requests, those that a distribution in front refused (`--edge`), without an invocation. Its own price is not included. ",
		func(r *Result) string { return percent(r.AtEdge, r.Requests) }},
	{ofOneStore, "Of one store: what the regions admit, in percent of what one store admits that all requests reach in order. ",
		func(r *Result) string { return percent(r.admitted(), r.Oracle) }},
	{betweenRegions, "Calls between regions are per request. ", func(r *Result) string { return decimals(ratio(r.RegionCalls, r.Requests), 4) }},
	{"turned away %", "Turned away: of all requests, those that found no free environment within a second. ",
		func(r *Result) string { return percent(r.Away, r.Requests) }},
	{"calls", "Calls are per request. ", func(r *Result) string { return decimals(ratio(r.Calls, r.Requests), 3) }},
	{"writes", "Writes (write units) or scripts are per request. ", func(r *Result) string { return decimals(ratio(r.Units, r.Requests), 3) }},
	{settlements, "Settling: the part of the writes that settles requests after their answers. A settlement that changes nothing makes no call. The store can settle an answer before it charges a slightly earlier request; such an admission counts as above. ",
		func(r *Result) string { return decimals(ratio(r.Settled, r.Requests), 3) }},
	{"hottest/s", "hottest/s: the most writes or scripts of one item in a second. ", func(r *Result) string { return decimals(r.Hottest, 0) }},
	{"p99 ms", "p99: the time of a decision. ", func(r *Result) string { return milliseconds(r.P99) }},
	{"$/M", "$/M: the cost of a million requests, for the authorizer and the store. ", func(r *Result) string { return decimals(r.Dollars, 2) }},
	{"$ a month", "$ a month: the cost of 30 days at this rate, for the authorizer and the store. ", func(r *Result) string { return thousands(int64(math.Round(r.Month))) }},
}

func ratio(part, whole int64) float64 { return float64(part) / float64(max(1, whole)) }

func percent(part, whole int64) string { return decimals(100*ratio(part, whole), 2) }

func (list Columns) without(name string) Columns {
	return slices.DeleteFunc(slices.Clone(list), func(c column) bool { return c.name == name })
}

// write writes the table of the results and what its columns mean. It leaves out the columns of settlements and of regions
// if there are none.
func (list Columns) write(b *strings.Builder, store Store, results []Result) {
	regions := func(r Result) int64 { return int64(r.Regions) }
	for name, part := range map[string]func(Result) int64{settlements: func(r Result) int64 { return r.Settled }, ofOneStore: regions, betweenRegions: regions} {
		if !slices.ContainsFunc(results, func(r Result) bool { return part(r) > 0 }) {
			list = list.without(name)
		}
	}
	lines := make([][]string, 1+len(results))
	legend := ""
	for _, c := range list {
		head := c.name
		if head == "writes" && store == ElastiCache {
			head = "scripts"
		}
		lines[0] = append(lines[0], head)
		for i := range results {
			lines[i+1] = append(lines[i+1], c.cell(&results[i]))
		}
		if means, about := strings.CutPrefix(c.means, oracleMeans); about && strings.Contains(legend, oracleMeans) {
			legend += means
		} else {
			legend += c.means
		}
	}
	b.WriteString(grid(lines))
	if slices.ContainsFunc(results, func(r Result) bool { return r.Unfilled }) {
		legend += "*: a window is longer than the warm-up. Its count begins at zero, so the limit refuses fewer requests than later. A refused request costs less. "
	}
	if legend != "" {
		b.WriteString("\n" + strings.TrimSpace(legend) + "\n")
	}
}
