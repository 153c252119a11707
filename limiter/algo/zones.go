package algo

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"time"
)

// zoneData has the time zones from 2025 on. For zones whose clocks follow Ramadan, the data end in
// February 2033. For each zone it has the names, a line feed, the length of the data in two bytes, and
// the data (RFC 9636). It takes 6 KB; package time/tzdata would add 100 KB to a function. TestZones
// writes it.
//
//go:embed zones.bin
var zoneData []byte

// loadZone returns the time zone with a name. It accepts only the names of zoneData, so a document means
// the same on every machine. If the system has the zone too, loadZone uses the system's data, because
// they can be newer.
func loadZone(name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	embedded := embeddedZone(name)
	if embedded == nil {
		return nil
	}
	if location, err := time.LoadLocation(name); err == nil {
		return location
	}
	return embedded
}

// embeddedZone returns the zone with this name from zoneData, or nil.
func embeddedZone(name string) *time.Location {
	all, _ := io.ReadAll(flate.NewReader(bytes.NewReader(zoneData)))
	for len(all) > 0 {
		names, rest, _ := strings.Cut(string(all), "\n")
		size := int(binary.BigEndian.Uint16([]byte(rest[:2])))
		if slices.Contains(strings.Fields(names), name) {
			location, _ := time.LoadLocationFromTZData(name, []byte(rest[2:2+size]))
			return location
		}
		all = all[len(names)+3+size:]
	}
	return nil
}
