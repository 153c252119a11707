package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// changingZones change their clocks by one hour, two hours or half an hour; in Casablanca for Ramadan.
var changingZones = []string{"Europe/Berlin", "America/New_York", "Antarctica/Troll", "Australia/Lord_Howe", "Africa/Casablanca"}

// changeDays returns the days of 2030 on which the clocks of a zone change: the start of each day and of the next.
func changeDays(t *testing.T, zone string) (days [][2]algo.Instant) {
	t.Helper()
	w := Limit(t, "day", algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Day, Zone: zone}}).Machine().(*algo.Window)
	from := w.Index(algo.InstantOf(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)))
	for day := from; day < from+365; day++ {
		if begin, end := w.Start(day), w.Start(day+1); end.Sub(begin) != 24*time.Hour {
			days = append(days, [2]algo.Instant{begin, end})
		}
	}
	if len(days) != 2 {
		t.Fatalf("%s: got %d days in 2030 on which the clocks change, want 2", zone, len(days))
	}
	return days
}

// testClockChange runs random scripts on days on which the clocks of a time zone change. The limits count days and
// longer periods. Their time zone changes too. The wait of a refusal ends when the period ends.
func testClockChange(t *testing.T, s Suite) {
	store := s.Open(t)
	days := map[string][][2]algo.Instant{}
	for _, zone := range changingZones {
		days[zone] = changeDays(t, zone)
	}
	rapid.Check(t, func(t *rapid.T) {
		p, zone := newPairOf(store, s), rapid.SampledFrom(changingZones).Draw(t, "zone")
		day := rapid.SampledFrom(days[zone]).Draw(t, "day")
		other := rapid.SampledFrom(changingZones).Draw(t, "other zone")
		var limits [2][]*limiter.Limit
		for _, period := range []algo.Period{algo.Day, rapid.SampledFrom(algo.Periods()[1:]).Draw(t, "period")} {
			first := Limit(t, string(period), algo.Rate{Requests: 6, Calendar: algo.Calendar{Period: period, Zone: zone}})
			next := changed(t, first, 2, algo.Rate{Requests: 8, Calendar: algo.Calendar{Period: period, Zone: other}})
			limits[0], limits[1] = append(limits[0], first), append(limits[1], next)
		}
		now, version := day[0].Add(-time.Minute), 0
		h := history{pair: p}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "move") {
			case 0, 1, 2:
				now = now.Add(time.Duration(rapid.Int64Range(int64(-2*time.Second), int64(2*time.Hour)).Draw(t, "step")))
			case 3:
				edge := day[rapid.IntRange(0, 1).Draw(t, "edge")].Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "nanosecond")))
				// not further back: that clock would be wrong, and a refusal would last until the store clamps the state
				now = max(now.Add(-time.Second), edge)
			case 4:
				version = 1
			case 5:
				if len(h.past) > 0 {
					h.settle(t, now)
				}
			}
			charges := []limiter.Charge{{Limit: limits[version][0], Cost: rapid.Int64Range(0, 3).Draw(t, "cost")},
				{Limit: limits[version][1], Cost: 1}}
			allowed, results := p.take(t, now, charges, nil)
			if allowed {
				h.past = append(h.past, admission{charges: slices.Clone(charges), results: results})
			} else if wait := results[0].RetryAfter(now, charges[0].Cost); wait > 0 &&
				charges[0].Cost > 0 { // a cost of 0 does not store a conversion
				for _, early := range []algo.Instant{1, 0} {
					if ok, _ := p.take(t, now.Add(wait)-early, charges[:1], nil); ok != (early == 0) {
						t.Fatalf("%s: %d ns before the end of the wait: got allowed %t", zone, early, ok)
					}
				}
				now = now.Add(wait)
			}
		}
		p.inspect(t)
	})
}
