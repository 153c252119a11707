package algo

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for systems without time zones, such as Lambda
)

// Period is a kind of calendar period, as in rules documents.
type Period string

// The periods. A week begins on Monday, and a month on its first day, unless Calendar.Anchor is another
// day.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
	Year  Period = "year"
)

// Periods returns all periods, shortest first.
func Periods() []Period { return []Period{Day, Week, Month, Year} }

// Weekdays returns the anchors of a week, from "monday" to "sunday".
func Weekdays() []string {
	return []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
}

// Calendar divides time into the periods of a time zone. The zero value is no calendar.
type Calendar struct {
	Period Period `json:",omitzero"`
	// Zone is the name of the time zone in the IANA database; "" means UTC.
	Zone string `json:",omitzero"`
	// Anchor is the first day of a Week ("monday" to "sunday") or of a Month ("1" to "31"). A Month
	// that is shorter than its anchor begins on its last day. A Day and a Year have no anchor.
	Anchor string `json:",omitzero"`
}

// MaxPeriod is the longest length of a period.
const MaxPeriod = 366*day + clockChange

// ZoneWords describe the valid values of Calendar.Zone in messages.
const ZoneWords = `name of the IANA time zone database, such as "Europe/Berlin"`

const maxZone = 36

const (
	day         = 24 * time.Hour
	clockChange = 2 * time.Hour // a period can be this much longer when daylight saving time ends: Antarctica/Troll
)

func (p Period) longest() time.Duration {
	switch p {
	case Day:
		return day + clockChange
	case Week:
		return 7*day + clockChange
	case Month:
		return 31*day + clockChange
	default:
		return MaxPeriod
	}
}

func (c Calendar) withDefaults() Calendar {
	if c.Period != "" && c.Zone == "" {
		c.Zone = "UTC"
	}
	switch {
	case c.Anchor != "":
	case c.Period == Week:
		c.Anchor = "monday"
	case c.Period == Month:
		c.Anchor = "1"
	}
	return c
}

// calendar is a compiled Calendar. Equal calendars have the same pointer.
type calendar struct {
	Calendar
	location *time.Location
	longest  func() time.Duration   // see Calendar.Longest
	first    int64                  // for a Week, its first weekday (Monday = 1); for a Month, its first day
	present  atomic.Pointer[period] // cached period of a recent instant
}

// period is one period: start inclusive, end exclusive.
type period struct {
	index      int64
	start, end Instant
}

// The time zone database bounds the size of these caches.
var (
	calendars sync.Map // *calendar by Calendar
	zones     sync.Map // *time.Location by name
)

// ValidZone reports whether name is the name of a time zone in the IANA database, such as Europe/Berlin, or UTC.
func ValidZone(name string) bool {
	if _, known := zones.Load(name); known {
		return true
	}
	if len(name) > maxZone {
		return false
	}
	location := loadZone(name)
	if location != nil {
		zones.Store(name, location)
	}
	return location != nil
}

// areas begin the names of time zones that mean the same on every machine.
var areas = []string{"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Etc", "Europe", "Indian", "Pacific",
	"US"}

// loadZone returns the time zone with a name, from the system or else from time/tzdata; nil if there is none.
func loadZone(name string) *time.Location {
	area, _, inArea := strings.Cut(name, "/")
	if name != "UTC" && (!inArea || !slices.Contains(areas, area) || path.Clean(name) != name) {
		return nil
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return location
}

func (c Calendar) compile() (*calendar, error) {
	c = c.withDefaults()
	if known, ok := calendars.Load(c); ok {
		return known.(*calendar), nil
	}
	if !slices.Contains(Periods(), c.Period) {
		return nil, &FieldError{"period", strconv.Quote(string(c.Period)), "day, week, month or year"}
	}
	first, err := c.firstDay()
	if err != nil {
		return nil, err
	}
	if !ValidZone(c.Zone) {
		return nil, &FieldError{"time_zone", strconv.Quote(c.Zone[:min(len(c.Zone), maxZone)]), "a " + ZoneWords}
	}
	location, _ := zones.Load(c.Zone)
	made := &calendar{Calendar: c, first: first, location: location.(*time.Location)}
	made.longest = sync.OnceValue(made.findLongest)
	known, _ := calendars.LoadOrStore(c, made)
	return known.(*calendar), nil
}

// Longest returns the length of the longest period, with the clock changes of the zone from 2025 to 2033; 0 for an
// invalid calendar.
func (c Calendar) Longest() time.Duration {
	known, err := c.compile()
	if err != nil {
		return 0
	}
	return known.longest()
}

// findLongest looks at the periods around each clock change. All others have whole days.
func (c *calendar) findLongest() time.Duration {
	longest := c.Period.longest() - clockChange
	for at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2034; {
		for _, now := range []time.Time{at.Add(-1), at} {
			p := c.at(InstantOf(now))
			longest = max(longest, p.end.Sub(p.start))
		}
		_, end := at.In(c.location).ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(at) { // see begin
			end = at.Add(day)
		}
		at = end
	}
	return longest
}

func (c Calendar) firstDay() (int64, error) {
	switch c.Period {
	case Week:
		if i := slices.Index(Weekdays(), c.Anchor); i >= 0 {
			return int64(i) + int64(time.Monday), nil
		}
		return 0, &FieldError{"anchor", c.Anchor, `the first day of a week, "monday" to "sunday"`}
	case Month:
		for n := int64(1); n <= 31; n++ {
			if c.Anchor == strconv.FormatInt(n, 10) {
				return n, nil
			}
		}
		return 0, &FieldError{"anchor", c.Anchor, "the first day of a month, 1 to 31"}
	default:
		if c.Anchor != "" {
			return 0, &FieldError{"anchor", c.Anchor, fmt.Sprintf("none: only a week and a month have one, not a %s", c.Period)}
		}
		return 0, nil
	}
}

func (c *calendar) at(now Instant) *period {
	if p := c.present.Load(); p != nil && p.start <= now && now < p.end {
		return p
	}
	y, m, d := now.Time().In(c.location).Date()
	i := c.index(y, m, d)
	p := &period{i, c.begin(i), c.begin(i + 1)}
	if now >= p.end { // a clock that is set back at midnight shows the old date again
		p = &period{p.index + 1, p.end, c.begin(p.index + 2)}
	}
	c.present.Store(p)
	return p
}

func (c *calendar) start(index int64) Instant {
	if p := c.present.Load(); p != nil && p.index == index {
		return p.start
	} else if p != nil && p.index == index-1 {
		return p.end
	}
	return c.begin(index)
}

// index returns the number of the period that contains a date. Later periods have higher numbers. The
// number of a period in 1970 or later is not negative in any time zone.
func (c *calendar) index(y int, m time.Month, d int) int64 {
	switch c.Period {
	case Day:
		return 1 + dayOf(y, m, d)
	case Week:
		return 1 + divFloor(dayOf(y, m, d)+int64(time.Thursday)-c.first, 7)
	case Month:
		i := int64(y)*12 + int64(m-time.January)
		if dayOf(y, m, d) < c.firstDate(i) {
			i--
		}
		return i
	default:
		return int64(y)
	}
}

func (c *calendar) firstDate(index int64) int64 {
	switch c.Period {
	case Day:
		return index - 1
	case Week:
		return (index-1)*7 - int64(time.Thursday) + c.first
	case Month:
		y, m := int(index/12), time.Month(index%12)+time.January
		return min(dayOf(y, m, int(c.first)), dayOf(y, m+1, 0)) // day 0 is the last day of the month before
	default:
		return dayOf(int(index), time.January, 1)
	}
}

// dayOf returns the days from 1 January 1970, a Thursday, to a date.
func dayOf(y int, m time.Month, d int) int64 {
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / int64(day/time.Second)
}

// begin returns the first instant at which the clocks of the zone show the first date of a period or a
// later one.
func (c *calendar) begin(index int64) Instant {
	const (
		farthest = 30 * 3600                                   // seconds; no zone is that far from UTC
		last     = math.MaxInt64/int64(time.Second) - farthest // latest second that begin accepts; a stored index can be wrong and too high
	)
	midnight := min(c.firstDate(min(index, last))*int64(day/time.Second), last)
	for t := midnight - farthest; ; {
		at := time.Unix(t, 0).In(c.location)
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		next := end.Unix()
		// ZoneBounds can return an end before t. On the last day of a leap year, it returns the start
		// of that day.
		if next <= t {
			next = t + 60
		}
		if first := max(t, midnight-int64(offset)); end.IsZero() || first < next {
			return InstantOf(time.Unix(first, 0))
		}
		t = next
	}
}
