package algo

import (
	"testing"
	"time"
)

// These instants bound the search for the longest period.
var (
	from  = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2033, 3, 1, 0, 0, 0, 0, time.UTC)
)

// The longest period of a calendar exists, and no other is longer.
func TestCalendar_Longest(t *testing.T) {
	const hour = time.Hour
	for c, want := range map[Calendar]time.Duration{
		{Period: Day}:                              day,
		{Period: Day, Zone: "Asia/Kathmandu"}:      day,
		{Period: Day, Zone: "Europe/Berlin"}:       day + hour,
		{Period: Day, Zone: "Australia/Lord_Howe"}: day + hour/2,
		{Period: Day, Zone: "Antarctica/Troll"}:    day + 2*hour,
		{Period: Day, Zone: "America/Havana"}:      day + hour, // set back in the first hour of a day
		{Period: Week}:                             7 * day,
		{Period: Week, Zone: "Europe/Berlin"}:      7*day + hour,
		{Period: Month}:                            31 * day,
		{Period: Month, Zone: "Europe/Berlin"}:     31*day + hour,
		{Period: Month, Zone: "Australia/Sydney"}:  31 * day, // set back in April, which has 30 days
		{Period: Year, Zone: "Europe/Berlin"}:      366 * day,
		{}:                                         0,
	} {
		got := c.Longest()
		if got != want {
			t.Errorf("%+v: got %s, want %s", c, got, want)
		}
		if want == 0 {
			continue
		}
		m, most := &Window{calendar: mustCompile(t, c)}, time.Duration(0)
		for at := from; at.Before(until); at = at.Add(20 * hour) {
			most = max(most, m.LengthAt(InstantOf(at)))
		}
		if most != got {
			t.Errorf("%+v: got %s, want %s, the longest of all periods", c, got, most)
		}
	}
}

func mustCompile(t *testing.T, c Calendar) *calendar {
	t.Helper()
	m, err := c.compile()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A zone is valid on every machine or on none. The database of a Unix system has more names; some of these, such as
// "localtime", mean another zone on each machine.
func TestValidZone(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "US/Pacific", "Etc/GMT+12"} {
		if !ValidZone(name) {
			t.Errorf("%s: got invalid, want valid", name)
		}
	}
	for _, name := range []string{
		"", "Local", "GMT", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe//Berlin",
		"./Europe/Berlin", "../zoneinfo/Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin\n", "Europe", "europe/berlin",
		"Mars/Olympus",
	} {
		if ValidZone(name) {
			t.Errorf("%q: got valid, want invalid", name)
		}
	}
}
