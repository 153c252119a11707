package redisstore

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
)

// anchors lists all anchors of calendars. The parameters of a limit contain an index of this list.
var anchors = func() []string {
	list := append([]string{""}, algo.Weekdays()...)
	for day := range 31 {
		list = append(list, fmt.Sprint(day+1))
	}
	return list
}()

// appendCalendar appends the parameters of a window with a calendar: its period, its anchor, its
// requests and its zone. Zeros fill the last unit.
func appendCalendar(b []byte, w *algo.Window) []byte {
	c, start := w.Calendar(), len(b)
	b = append(b, byte(slices.Index(algo.Periods(), c.Period)), byte(slices.Index(anchors, c.Anchor)))
	b = append(appendDecimal(b, w.Requests), c.Zone...)
	for (len(b)-start)%unit(kindCalendar) != 0 {
		b = append(b, 0)
	}
	return b
}

// parseCalendar is the inverse of appendCalendar.
func parseCalendar(b []byte) (algo.Machine, error) {
	if len(b) < 3 || int(b[0]) >= len(algo.Periods()) || int(b[1]) >= len(anchors) {
		return nil, fmt.Errorf("parameters of a calendar: got % x, want a period and an anchor", b)
	}
	requests, zone := decimal(b[2:])
	return algo.New(algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Calendar: algo.Calendar{
		Period: algo.Periods()[b[0]], Anchor: anchors[b[1]], Zone: string(bytes.TrimRight(zone, "\x00")),
	}})
}
