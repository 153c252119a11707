package storetest

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// mechanism is a row of the table of pairs: one way in which a limit, or what happens to it, differs from the plain case.
type mechanism struct {
	name string
	// covers are the fields of limiter.Limit, limiter.Spread and limiter.Count, and the values of limiter.Counted and
	// limiter.OnError, that the row tests.
	covers []string
	limit  func(*limiter.Limit) // configures a limit; nil if the mechanism concerns all limits
	events map[stepKind]int     // weights of the steps that the mechanism adds to a history
}

var mechanisms = []mechanism{
	{"lease", []string{"Spread.Lease"}, func(l *limiter.Limit) { l.Spread.Lease = 8 }, nil},
	{pressure, nil, nil, map[stepKind]int{doThrottle: 3, doStall: 1, doBurst: 2}},
	{"group", nil, nil, map[stepKind]int{doBurst: 6}},
	{"shards", []string{"Spread.Shards"}, func(l *limiter.Limit) { l.Spread.Shards = 3 }, nil},
	{"sync", []string{"Spread.Sync"}, func(l *limiter.Limit) { l.Spread.Sync = 100 * time.Millisecond }, nil},
	{"cost", []string{"CountCost", "Count.Of"}, countsOf(limiter.CountCost), map[stepKind]int{doSettle: 6}},
	{"failures", []string{"CountFailures", "Count.Failures"}, countsOf(limiter.CountFailures), map[stepKind]int{doSettle: 6}},
	{"bytes", []string{"CountBytes"}, countsOf(limiter.CountBytes), map[stepKind]int{doSettle: 6}},
	{"concurrent", []string{"CountConcurrent"}, countsOf(limiter.CountConcurrent), map[stepKind]int{doSettle: 8}},
	{"mark", []string{"Mark"}, func(l *limiter.Limit) { l.Mark = true }, nil},
	{"shadow", []string{"Shadow"}, func(l *limiter.Limit) { l.Shadow = true }, nil},
	{"notify", []string{"Notify"}, func(l *limiter.Limit) { l.Notify = limiter.Percentages{50, 100} }, nil},
	{"period", []string{"Rate"}, func(l *limiter.Limit) {
		l.Rate.Window, l.Rate.Calendar = 0, algo.Calendar{Period: algo.Day, Zone: "UTC"}
	}, nil},
	{"tiers", nil, func(l *limiter.Limit) {
		if l.Rate.Algorithm == algo.SlidingLog {
			l.Rate.Algorithm = algo.FixedWindow
		}
		l.Rate.Of = 2 * l.Rate.WithDefaults().Capacity()
	}, map[stepKind]int{doTier: 6}},
	{changes, []string{"Version"}, nil, map[stepKind]int{doReload: 3}},
	{ahead, nil, nil, map[stepKind]int{doClock: 3}},
	{"local", []string{"OnErrorLocal", "OnError"}, func(l *limiter.Limit) { l.OnError = limiter.OnErrorLocal }, map[stepKind]int{doOutage: 4}},
	{"allow", []string{"OnErrorAllow"}, func(l *limiter.Limit) { l.OnError = limiter.OnErrorAllow }, map[stepKind]int{doOutage: 4}},
	{"deny", []string{"OnErrorDeny"}, func(l *limiter.Limit) { l.OnError = limiter.OnErrorDeny }, map[stepKind]int{doOutage: 4}},
	{"processes", []string{"LocalProcesses"}, func(l *limiter.Limit) { l.LocalProcesses = environments }, map[stepKind]int{doOutage: 4}},
	{"reset", nil, nil, map[stepKind]int{doReset: 2}},
	{"expiry", []string{"Horizon"}, nil, map[stepKind]int{doExpire: 3}},
	{"messages", nil, nil, map[stepKind]int{doLose: 4}},
	{"stalls", nil, nil, map[stepKind]int{doStall: 3, doBurst: 1}},
	{"late", nil, nil, map[stepKind]int{doSettleLate: 5}},
	{"subjects", []string{"Global"}, nil, map[stepKind]int{doTakeMore: 8}},
}

// These names of mechanisms change how a history is checked.
const (
	pressure = "pressure"
	changes  = "changes"
	ahead    = "ahead"
)

// environments is the largest number of environments of a history.
const environments = 2

func countsOf(of limiter.Counted) func(*limiter.Limit) {
	return func(l *limiter.Limit) {
		l.Count.Of = of
		if of == limiter.CountConcurrent {
			l.Rate.Algorithm, l.Rate.Requests = "", min(l.Rate.Requests, 300)
		}
	}
}

// alone has groups of mechanisms that set the same field, so a limit has at most one mechanism of each group.
var alone = [][]string{
	{"cost", "failures", "bytes", "concurrent"},
	{"local", "allow", "deny"},
}

// refused are the pairs that NewLimit refuses on one limit, with the field of the error.
var refused = map[string]string{}

func init() {
	for field, pairs := range map[string][][2][]string{
		"count":  {{{"lease", "shards", "sync"}, {"cost", "failures", "bytes", "concurrent"}}},
		"of":     {{{"lease", "shards", "sync", "concurrent"}, {"tiers"}}},
		"notify": {{{"lease", "shards", "sync", "concurrent"}, {"notify"}}},
		"shards": {{{"lease"}, {"shards"}}}, "sync_ms": {{{"lease", "shards"}, {"sync"}}},
		"period":          {{{"period"}, {"concurrent"}}},
		"local_processes": {{{"allow", "deny"}, {"processes"}}},
	} {
		for _, p := range pairs {
			for _, a := range p[0] {
				for _, b := range p[1] {
					refused[a+" "+b], refused[b+" "+a] = field, field
				}
			}
		}
	}
}

// joins reports whether one limit can have both mechanisms.
func joins(rows []*mechanism) bool {
	a, b := rows[0].name, rows[1].name
	for _, group := range alone {
		if slices.Contains(group, a) && slices.Contains(group, b) {
			return false
		}
	}
	return refused[a+" "+b] == ""
}
