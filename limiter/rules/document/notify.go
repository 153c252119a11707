package document

import "github.com/weir-limits/weir/limiter"

func (d *Document) readNotify(o *object) (p limiter.Percentages) {
	n := o.member("notify")
	if n == nil {
		return p
	}
	elements := d.values(n, len(p), "percentages", "[80, 100]")
	if elements == nil {
		return p
	}
	for i, item := range elements {
		percent, ok := o.whole(item, limiter.MaxPercent)
		if ok && i > 0 && int(percent) <= p[i-1] {
			d.report.at(item, "got %s, want more than %d: percentages are in ascending order", item, p[i-1])
		}
		p[i] = int(percent)
	}
	d.forbid(o, `"notify": only the store knows the exact usage`, "lease", "shards", "sync_ms")
	return p
}
