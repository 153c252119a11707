package algo_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

func calendar(tb testing.TB, c algo.Calendar) *algo.Window {
	tb.Helper()
	return machine(tb, algo.Rate{Requests: 10, Calendar: c}).(*algo.Window)
}

func instant(tb testing.TB, s string) algo.Instant {
	tb.Helper()
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		tb.Fatal(err)
	}
	return algo.InstantOf(t)
}

// The periods of a calendar have these boundaries. An instant of a period, its begin and its last
// nanosecond have the same index. The next period has a higher index.
func TestCalendar(t *testing.T) {
	for _, c := range []struct {
		name           string
		calendar       algo.Calendar
		at, start, end string
	}{
		{"UTC is the default", algo.Calendar{Period: algo.Day}, "2026-03-04T05:06:00Z", "2026-03-04T00:00:00Z", "2026-03-05T00:00:00Z"},
		{"Berlin, 23 hours", algo.Calendar{Period: algo.Day, Zone: "Europe/Berlin"}, "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00",
			"2026-03-30T00:00:00+02:00"},
		{"Kolkata", algo.Calendar{Period: algo.Day, Zone: "Asia/Kolkata"}, "2026-03-04T18:30:00Z", "2026-03-05T00:00:00+05:30",
			"2026-03-06T00:00:00+05:30"},
		{"Apia before the day that it skipped", algo.Calendar{Period: algo.Day, Zone: "Pacific/Apia"}, "2011-12-30T09:59:59Z",
			"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"a day without midnight", algo.Calendar{Period: algo.Day, Zone: "America/Sao_Paulo"}, "2018-11-04T12:00:00Z",
			"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"a date that the clock shows twice", algo.Calendar{Period: algo.Day, Zone: "America/St_Johns"}, "2010-11-07T02:45:00Z",
			"2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"two midnights", algo.Calendar{Period: algo.Day, Zone: "America/Havana"}, "2026-11-01T05:30:00Z", "2026-11-01T00:00:00-04:00",
			"2026-11-02T00:00:00-05:00"},

		{"a week begins on Monday", algo.Calendar{Period: algo.Week}, "2026-03-04T05:06:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"a week from Wednesday", algo.Calendar{Period: algo.Week, Anchor: "wednesday"}, "2026-03-04T05:06:00Z", "2026-03-04T00:00:00Z",
			"2026-03-11T00:00:00Z"},

		{"a month", algo.Calendar{Period: algo.Month}, "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"February of a leap year", algo.Calendar{Period: algo.Month}, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"from the 15th", algo.Calendar{Period: algo.Month, Anchor: "15"}, "2026-01-14T23:59:59Z", "2025-12-15T00:00:00Z",
			"2026-01-15T00:00:00Z"},
		{"from the 31st, in February", algo.Calendar{Period: algo.Month, Anchor: "31", Zone: "Europe/Berlin"}, "2026-02-28T00:00:00+01:00",
			"2026-02-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00"},
		{"from the 31st, the day before", algo.Calendar{Period: algo.Month, Anchor: "31"}, "2028-02-28T23:59:59Z", "2028-01-31T00:00:00Z",
			"2028-02-29T00:00:00Z"},

		{"a year", algo.Calendar{Period: algo.Year, Zone: "America/New_York"}, "2027-01-01T04:59:59Z", "2026-01-01T00:00:00-05:00",
			"2027-01-01T00:00:00-05:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := calendar(t, c.calendar)
			at, start, end := instant(t, c.at), instant(t, c.start), instant(t, c.end)
			// The second iteration reads the cached period.
			for range 2 {
				i := w.Index(at)
				if got, next := w.Start(i).Time(), w.Index(end); got != start.Time() || w.Index(start) != i || w.Index(end-1) != i ||
					w.Index(start-1) >= i || next <= i {
					t.Errorf("got start %s, indexes %d, %d, %d, %d and %d, want start %s and increasing indexes", got, w.Index(start-1), w.Index(start), i,
						w.Index(end-1), next, start.Time())
				}
				if got := w.LengthAt(at); got != end.Sub(start) {
					t.Errorf("got length %s, want %s", got, end.Sub(start))
				}
				full, _ := w.Take(algo.State{}, at, 10)
				if got := w.RetryAfter(full, at, 1); got != end.Sub(at) || w.ResetAfter(full, at) != got {
					t.Errorf("got RetryAfter %s and ResetAfter %s, want %s", got, w.ResetAfter(full, at), end.Sub(at))
				}
			}
		})
	}
}

// zones have changes of their clock of many kinds: at midnight, by half an hour, by a day.
var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Kwajalein",
	"America/Sao_Paulo", "America/St_Johns", "America/Havana", "Australia/Lord_Howe", "Antarctica/Casey", "Antarctica/Troll",
	"Africa/Casablanca", "Asia/Gaza"}

func drawCalendar(t *rapid.T) (c algo.Calendar) {
	c.Period = rapid.SampledFrom(algo.Periods()).Draw(t, "period")
	c.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
	switch c.Period {
	case algo.Week:
		c.Anchor = rapid.SampledFrom(algo.Weekdays()).Draw(t, "weekday")
	case algo.Month:
		c.Anchor = rapid.SampledFrom([]string{"1", "2", "15", "28", "29", "30", "31"}).Draw(t, "day")
	default:
	}
	return c
}

// Every instant is in exactly one period, and later periods have higher indexes.
func TestCalendar_periods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCalendar(t)
		m, err := algo.New(algo.Rate{Requests: 1, Calendar: c})
		if err != nil {
			t.Fatal(err)
		}
		w := m.(*algo.Window)
		now := algo.Instant(rapid.Int64Range(0, int64(200*365*24*time.Hour)).Draw(t, "now"))
		i := w.Index(now)
		if w.Start(i) > now || w.Start(i+1) <= now {
			t.Fatalf("%v: %s is not in period %d, from %s to %s", c, now.Time(), i, w.Start(i).Time(), w.Start(i+1).Time())
		}
		if i < 0 || i >= 1<<32 {
			t.Fatalf("%v: got index %d, want 32 bits", c, i)
		}
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "later")))
		if j := w.Index(later); j < i || j > i && w.Start(j) <= now {
			t.Fatalf("%v: got index %d at %s and %d at %s", c, i, now.Time(), j, later.Time())
		}
		if parsed, err := algo.Parse(m.Fingerprint()); err != nil || parsed.Fingerprint() != m.Fingerprint() ||
			parsed.(*algo.Window).Start(i) != w.Start(i) {
			t.Fatalf("%s: got %v, %v after Parse", m.Fingerprint(), parsed, err)
		}
		if w.LengthAt(now) > w.Length+23*time.Hour || w.Start(i+1).Sub(now) > w.Horizon() {
			t.Fatalf("%v: got a period of %s at %s, want at most about %s", c, w.LengthAt(now), now.Time(), w.Length)
		}
	})
}

// The fingerprint contains the period, the anchor, the requests and the zone.
func TestCalendar_Fingerprint(t *testing.T) {
	for want, c := range map[string]algo.Calendar{
		"day/10/UTC":                {Period: algo.Day},
		"week-monday/10/UTC":        {Period: algo.Week},
		"month-31/10/Europe/Berlin": {Period: algo.Month, Zone: "Europe/Berlin", Anchor: "31"},
		"year/10/Asia/Kolkata":      {Period: algo.Year, Zone: "Asia/Kolkata"},
	} {
		if got := calendar(t, c).Fingerprint(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, bad := range []string{"month-31/10", "month-31/10/", "month-32/10/UTC", "day-1/10/UTC", "day/0/UTC", "day/1e9/UTC",
		"week-31/10/UTC", "day/10/Local", "day/10/../UTC"} {
		if m, err := algo.Parse(bad); err == nil {
			t.Errorf("%s: got %s, want an error", bad, m.Fingerprint())
		}
	}
}

// A changed calendar keeps the usage, and creates no quota.
func TestCalendar_Convert(t *testing.T) {
	month, anchored := calendar(t, algo.Calendar{Period: algo.Month}), calendar(t, algo.Calendar{Period: algo.Month, Anchor: "15"})
	day, window := calendar(t, algo.Calendar{Period: algo.Day}), machine(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 10,
		Window: 24 * time.Hour})
	now := instant(t, "2026-03-20T12:00:00Z")
	charged, _ := month.Take(algo.State{}, now, 4)
	for _, to := range []algo.Machine{anchored, day, window, machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 10,
		Window: time.Hour})} {
		if got := to.Remaining(algo.Convert(month, to, charged, now), now); got != 6 {
			t.Errorf("to %s: got %d remaining, want 6", to.Fingerprint(), got)
		}
	}
	if s := algo.Convert(window, day, algo.State{Window: window.(*algo.Window).Index(now), Count: 3}, now); day.Remaining(s, now) != 7 {
		t.Errorf("from a window of a day: got %d remaining, want 7", day.Remaining(s, now))
	}
	// The month ends on 31 March. The anchored month that contains 31 March ends on 14 April.
	if s := algo.Convert(month, anchored, charged, now); anchored.Remaining(s, instant(t, "2026-04-14T23:59:59Z")) != 6 ||
		anchored.Remaining(s, instant(t, "2026-04-15T00:00:00Z")) != 10 {
		t.Error("to the 15th: got another end, want the counts until 15 April")
	}
}

// Goroutines share a calendar. Each gets the period of its own instant.
func TestCalendar_concurrent(t *testing.T) {
	w := calendar(t, algo.Calendar{Period: algo.Day, Zone: "Europe/Berlin"})
	from := instant(t, "2026-03-28T23:00:00Z")
	first := w.Index(from)
	var all sync.WaitGroup
	for g := range int64(4) {
		all.Go(func() {
			for i := range int64(200) {
				day := (i + g) % 3
				if got := w.Index(from.Add(time.Duration(day)*24*time.Hour + 12*time.Hour)); got != first+day {
					t.Errorf("day %d: got index %d, want %d", day, got, first+day)
				}
			}
		})
	}
	all.Wait()
}

func TestCalendar_New(t *testing.T) {
	for _, c := range []struct {
		rate  algo.Rate
		field string
	}{
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: "decade"}}, "period"},
		{algo.Rate{Requests: 1, Window: time.Hour, Calendar: algo.Calendar{Period: algo.Day}}, "period"},
		{algo.Rate{Algorithm: algo.SlidingWindow, Requests: 1, Calendar: algo.Calendar{Period: algo.Day}}, "period"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Day, Zone: "Mars/Olympus"}}, "time_zone"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Day, Zone: "Local"}}, "time_zone"},
		{algo.Rate{Requests: 1, Window: time.Hour, Calendar: algo.Calendar{Zone: "UTC"}}, "time_zone"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Month, Anchor: "0"}}, "anchor"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Month, Anchor: "32"}}, "anchor"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Week, Anchor: "1"}}, "anchor"},
		{algo.Rate{Requests: 1, Calendar: algo.Calendar{Period: algo.Year, Anchor: "1"}}, "anchor"},
		{algo.Rate{Requests: 1, Window: time.Hour, Calendar: algo.Calendar{Anchor: "1"}}, "anchor"},
	} {
		_, err := algo.New(c.rate)
		if field, ok := errors.AsType[*algo.FieldError](err); !ok || field.Field != c.field {
			t.Errorf("%+v: got error %v, want one of %s", c.rate, err, c.field)
		}
	}
}
