package algo

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update-zones", false, "rewrite zones.bin from the time zones of Go")

// zones.bin has the changes between these instants, and the rule of each zone for later ones. The zones
// whose clocks change with Ramadan have no rule. They are exact until the first Ramadan after until.
var (
	from  = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2033, 3, 1, 0, 0, 0, 0, time.UTC)
)

// The embedded zones have the same offsets as the zones of Go, from 2025 to October 2033.
func TestZones(t *testing.T) {
	zones := goZones(t)
	if *update {
		if err := os.WriteFile("zones.bin", packZones(t, zones), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range zones {
		want, err := time.LoadLocationFromTZData(name, data)
		if err != nil {
			t.Fatal(err)
		}
		got := embeddedZone(name)
		if got == nil {
			t.Errorf("%s: missing; run this test with -update-zones", name)
			continue
		}
		for at := from; at.Before(until.AddDate(0, 8, 0)); {
			_, offset := at.In(got).Zone()
			_, other := at.In(want).Zone()
			_, end := at.In(want).ZoneBounds()
			if offset != other {
				t.Errorf("%s at %s: got %d, want %d; run this test with -update-zones", name, at, offset, other)
				break
			}
			at = at.Add(7 * 24 * time.Hour)
			if !end.IsZero() && end.Before(at) && end.After(at.Add(-7*24*time.Hour)) {
				at = end
			}
		}
	}
	if embeddedZone("Mars/Olympus") != nil || embeddedZone("") != nil {
		t.Error("an unknown zone: got a location, want none")
	}
}

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

// A zone is valid on every machine or on none. The database of a Unix system has more names than
// zones.bin. Some of these names, such as "localtime", mean another zone on each machine.
func TestValidZone(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "US/Pacific", "Etc/GMT+12"} {
		if !ValidZone(name) {
			t.Errorf("%s: got invalid, want valid", name)
		}
	}
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe//Berlin",
		"./Europe/Berlin", "../zoneinfo/Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin\n", "Europe", "europe/berlin",
		"Mars/Olympus",
	} {
		if ValidZone(name) {
			t.Errorf("%q: got valid, want invalid", name)
		}
	}
}

func goZones(t *testing.T) map[string][]byte {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output() // runtime.GOROOT is empty with -trimpath
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	zones := map[string][]byte{}
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		zones[file.Name], err = io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
	}
	return zones
}

// packZones returns zones.bin. Zones with the same data are stored once.
func packZones(t *testing.T, zones map[string][]byte) []byte {
	t.Helper()
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		data := string(trimZone(zones[name]))
		names[data] = append(names[data], name)
	}
	var all bytes.Buffer
	for _, data := range slices.Sorted(maps.Keys(names)) {
		all.WriteString(strings.Join(names[data], " ") + "\n")
		all.Write(binary.BigEndian.AppendUint16(nil, uint16(len(data))))
		all.WriteString(data)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err == nil {
		_, err = w.Write(all.Bytes())
	}
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// zoneHeader is the header of a block: counts of UT indicators, standard indicators, leap seconds,
// transitions, types and characters (RFC 9636, 3.1).
type zoneHeader struct {
	Magic                             [20]byte
	UT, Std, Leap, Times, Types, Text uint32
}

const zoneHeaderSize = 44

func readHeader(data []byte) (h zoneHeader) {
	_, _ = binary.Decode(data, binary.BigEndian, &h)
	return h
}

// trimZone returns the data of a zone without the transitions before from.
func trimZone(data []byte) []byte {
	h := readHeader(data)
	data = data[zoneHeaderSize+h.Times*5+h.Types*6+h.Text+h.Leap*8+h.Std+h.UT:]
	h = readHeader(data)
	body := data[zoneHeaderSize:]
	times, indexes := body[:h.Times*8], body[h.Times*8:h.Times*9]
	types := body[h.Times*9 : h.Times*9+h.Types*6]
	footer := body[h.Times*9+h.Types*6+h.Text+h.Leap*12+h.Std+h.UT:]
	last := int(h.Times)
	for last > 0 && int64(binary.BigEndian.Uint64(times[8*last-8:])) >= until.Unix() {
		last--
	}
	times, indexes, h.Times = times[:8*last], indexes[:last], uint32(last)
	first := 0 // index of the last transition before from; it sets the offset at from
	for i := range int(h.Times) {
		if int64(binary.BigEndian.Uint64(times[8*i:])) <= from.Unix() {
			first = i
		}
	}
	words := []byte{0}
	var kept, used []byte
	for _, index := range append([]byte{0}, indexes...)[min(first+1, int(h.Times)):] {
		if bytes.IndexByte(used, index) < 0 {
			used = append(used, index)
			kept = append(append(kept, types[6*int(index):6*int(index)+5]...), 0) // Calendar periods need no abbreviations of zones.
		}
	}
	empty := h
	empty.UT, empty.Std, empty.Leap, empty.Times, empty.Types, empty.Text = 0, 0, 0, 0, 0, 0
	h.UT, h.Std, h.Leap, h.Times, h.Types, h.Text = 0, 0, 0, h.Times-uint32(first), uint32(len(used)), uint32(len(words))
	out, _ := binary.Append(nil, binary.BigEndian, empty)
	out, _ = binary.Append(out, binary.BigEndian, h)
	// The first transition of every zone gets the instant from, because equal bytes compress better.
	for i := first; i < len(indexes); i++ {
		at := int64(binary.BigEndian.Uint64(times[8*i:]))
		out = binary.BigEndian.AppendUint64(out, uint64(max(at, from.Unix())))
	}
	for _, index := range indexes[first:] {
		out = append(out, byte(bytes.IndexByte(used, index)))
	}
	return slices.Concat(out, kept, words, footer)
}
