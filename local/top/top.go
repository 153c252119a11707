package top

import (
	"bytes"
	"encoding/json"
	"time"
)

// parts is the number of counters of a sliding period.
const parts = 10

// Table lists the callers with the most refusals.
type Table struct {
	Refused int64     `json:"refused"` // total number of refusals
	Others  int64     `json:"others"`  // refusals of callers that the lines do not name
	Skipped int64     `json:"skipped"` // lines that are neither events nor metrics, or lie in the future
	Most    []Refused `json:"most"`
}

// maxName is the maximum length in bytes of a name in a line. A hash has 16 bytes, and the name of a
// limit has at most 64.
const maxName = 64

// maxAhead is the maximum time by which a line may be ahead of the reader's clock. A line further
// ahead would make all other lines too old.
const maxAhead = 5 * time.Minute

// Top counts the refusals in lines. Create it with New. It is not safe for concurrent use.
type Top struct {
	last     time.Duration
	now      time.Time // time of the newest line
	clock    func() time.Time
	counters map[int64]*counter
	skipped  int64
}

// New returns a Top that counts the lines of a period. The period ends with the newest line, and its length
// is last. The start of the period is exact to a tenth of its length. If last is 0, all lines count. clock
// is the reader's clock. Top skips lines that are more than five minutes ahead of clock, unless last is 0.
func New(last time.Duration, clock func() time.Time) *Top {
	return &Top{last: last, clock: clock, counters: map[int64]*counter{}}
}

// line has the fields that Top reads. A line is an event of the decision log, a line of metrics, or a
// refused caller in the metrics log.
type line struct {
	Time    time.Time `json:"time"`
	Outcome string    `json:"outcome"`
	Count   int64     `json:"count"`
	Subject string    `json:"subject"`
	Limit   string    `json:"limit"`

	Weir    string `json:"weir"`
	Refused int64  `json:"refused"`
	AWS     struct {
		Timestamp int64
	} `json:"_aws"`
}

// when returns the time of a line, if it has one.
func (l *line) when() time.Time {
	if l.AWS.Timestamp > 0 {
		return time.UnixMilli(l.AWS.Timestamp)
	}
	return l.Time
}

// Line reads a line. It ignores text before the first brace. Exports of CloudWatch Logs begin with a
// time, and lines of the local log begin with an environment.
func (t *Top) Line(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	var l line
	start := bytes.IndexByte(text, '{')
	if start < 0 || json.Unmarshal(text[start:], &l) != nil || len(l.Subject) > maxName || len(l.Limit) > maxName || t.last > 0 && l.when().Sub(t.clock()) > maxAhead {
		t.skipped++
		return
	}
	switch {
	case l.AWS.Timestamp > 0: // this is also the time of the following lines without a time
		t.tick(l.when())
	case l.Weir == "refused" && l.Refused > 0:
		t.at(t.now).add(Caller{l.Subject, l.Limit}, l.Refused)
	case l.Outcome != "" && l.Count > 0 && !l.Time.IsZero():
		t.tick(l.Time)
		if l.Outcome == "refused" {
			t.at(l.Time).add(Caller{l.Subject, l.Limit}, l.Count)
		}
	default:
		t.skipped++
	}
}

// tick updates the time of the newest line and drops counters that are too old.
func (t *Top) tick(at time.Time) {
	if !at.After(t.now) {
		return
	}
	t.now = at
	for part := range t.counters {
		if t.last > 0 && part <= t.part(t.now)-parts {
			delete(t.counters, part)
		}
	}
}

func (t *Top) part(at time.Time) int64 {
	if t.last == 0 || at.IsZero() {
		return 0
	}
	return at.UnixNano() / max(1, int64(t.last/parts))
}

// at returns the counter of a time. For a time that is too old it returns a counter that is
// discarded.
func (t *Top) at(when time.Time) *counter {
	part := t.part(when)
	if t.last > 0 && part <= t.part(t.now)-parts {
		return &counter{}
	}
	if t.counters[part] == nil {
		t.counters[part] = &counter{}
	}
	return t.counters[part]
}

// Table returns the n callers with the most refusals.
func (t *Top) Table(n int) Table {
	var all []*counter
	for _, c := range t.counters {
		all = append(all, c)
	}
	table := merge(all, n)
	table.Skipped = t.skipped
	return table
}
