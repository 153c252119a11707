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

// calendarLayout is the layout of a window with a calendar. Its parameters are its period, its anchor, its requests and
// its zone. Zeros fill the last unit.
type calendarLayout struct{ windowLayout }

func (calendarLayout) parameters(m algo.Machine) (kind byte, p parameters) {
	w := m.(*algo.Window)
	c := w.Calendar()
	b := append(p.bytes[:0], byte(slices.Index(algo.Periods(), c.Period)), byte(slices.Index(anchors, c.Anchor)))
	b = append(appendDecimal(b, w.Whole()), c.Zone...)
	for len(b)%unit(kindCalendar) != 0 {
		b = append(b, 0)
	}
	p.size = len(b)
	return kindCalendar, p
}

func (calendarLayout) machine(r stored) (algo.Machine, error) {
	b := r.limit[limitSize:]
	if len(b) < 3 || int(b[0]) >= len(algo.Periods()) || int(b[1]) >= len(anchors) {
		return nil, fmt.Errorf("parameters of a calendar: got % x, want a period and an anchor", b)
	}
	requests, zone := decimal(b[2:])
	return algo.New(algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Calendar: algo.Calendar{
		Period: algo.Periods()[b[0]], Anchor: anchors[b[1]], Zone: string(bytes.TrimRight(zone, "\x00")),
	}})
}
