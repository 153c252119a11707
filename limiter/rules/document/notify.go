package document

import (
	"strconv"

	"github.com/weir-limits/weir/limiter"
)

// readNotify reads the percentages at which a limit writes notices.
func (d *Document) readNotify(o *object) (p limiter.Percentages) {
	n := o.member("notify")
	if n == nil {
		return p
	}
	if n.kind != isList || len(n.items) == 0 || len(n.items) > len(p) {
		got := n.String()
		switch {
		case n.kind != isList:
		case len(n.items) == 0:
			got = "an empty list"
		default:
			got = strconv.Itoa(len(n.items)) + " percentages"
		}
		d.report.at(n, `got %s, want a list of 1 to %d percentages, such as [80, 100]`, got, len(p))
		return p
	}
	for i, item := range n.items {
		percent, ok := o.whole(item, limiter.MaxPercent)
		if ok && i > 0 && int(percent) <= p[i-1] {
			d.report.at(item, "got %s, want more than %d: percentages are in ascending order", item, p[i-1])
		}
		p[i] = int(percent)
	}
	for _, field := range []string{"lease", "shards", "sync_ms"} {
		if o.has(field) {
			d.report.add(Join(o.node.path(), field), `not allowed with "notify": only the store knows the exact usage`)
		}
	}
	return p
}
