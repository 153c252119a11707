package document

import "net/http"

// readUsage reads the endpoint at which callers get their usage. It adds a rule for this endpoint as the
// last rule.
func (d *Document) readUsage(n *node) {
	o := n.objectLike(&d.report, `{"endpoint": "/usage", "limit": {"requests": 60, "window": "1m"}}`)
	r := Rule{Path: n.path(), Method: http.MethodGet, Cost: 1, LocalProcesses: 1, Tiers: []string{OtherTiers}}
	r.Endpoint, _ = o.text(o.required("endpoint"))
	limit := o.required("limit")
	o.done()
	if limit == nil {
		return
	}
	l, ok := d.readLimit(limit, OtherTiers, false)
	if l.Mark {
		d.report.add(Join(l.Path, "mode"), `got "mark", want "enforce": nothing else limits the usage endpoint`)
	}
	if !ok {
		return
	}
	r.Limits = []Limit{l}
	d.Rules, d.Usage = append(d.Rules, r), true
}
