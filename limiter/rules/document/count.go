package document

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/meter"
)

const countRequests = "requests"

var counts = []string{countRequests, string(limiter.CountCost), string(limiter.CountFailures), string(limiter.CountBytes),
	string(limiter.CountConcurrent)}

// readCount reads what a limit counts. Its reserve is the most that a request charges before its answer. from is nil unless the
// bodies of a request and its answer have the cost or the reserve.
func (d *Document) readCount(o *object) (c limiter.Count, reserve int64, from *meter.Source) {
	if of := o.choice("count", counts); of != countRequests && slices.Contains(counts, of) {
		c.Of = limiter.Counted(of)
	}
	from, reserve = d.readSource(o, c.Of)
	reserves := c.Of == limiter.CountCost || c.Of == limiter.CountBytes
	statuses := o.member("failure_status")
	switch {
	case reserves && !o.has("reserve"):
		d.report.add(Join(o.node.path(), "reserve"), `required with "count": %q: what a request charges until its answer is known`, string(c.Of))
	case !reserves && o.has("reserve"):
		d.report.add(Join(o.node.path(), "reserve"), `requires "count": "cost" or "bytes"`)
	}
	switch {
	case statuses != nil && c.Of != limiter.CountFailures:
		d.report.at(statuses, `requires "count": "failures"`)
	case statuses != nil:
		c.Failures = d.readStatuses(statuses)
	}
	return c, reserve, from
}

// isClassOfStatuses reports whether s is a class of statuses, such as "5xx".
func isClassOfStatuses(s string) bool {
	return len(s) == 3 && '1' <= s[0] && s[0] <= '5' && s[1:] == "xx"
}

func (d *Document) readStatuses(n *node) (s limiter.Statuses) {
	for _, item := range d.values(n, 1, maxStatuses, "statuses", `[401, "5xx"]`) {
		text, isText := item.value.(string)
		number, isNumber := item.value.(json.Number)
		status, err := strconv.Atoi(number.String())
		switch {
		case isText && isClassOfStatuses(text):
			for i := range 100 {
				s.Add(100*int(text[0]-'0') + i)
			}
		case isNumber && err == nil && status >= 100 && status <= 599:
			s.Add(status)
		case isText && isOf(text, digits, 3):
			d.report.at(item, `got %s, want a status from 100 to 599 without quotes, or a class such as "4xx"`, item)
		default:
			d.report.at(item, `got %s, want a status from 100 to 599, or a class such as "4xx"`, item)
		}
	}
	return s
}

// maxStatuses bounds a list of statuses.
const maxStatuses = 100
