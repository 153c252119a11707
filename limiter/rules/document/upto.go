package document

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
)

// Part is what the callers of a tier may use of a limit.
type Part struct {
	Tier    string // a tier or OtherTiers
	Percent int64  // 1 to 100
}

// readUpTo reads the field up_to of the limit l, whose other fields are known, sorted by tier. It returns nil without the field.
func (d *Document) readUpTo(o *object, l *Limit) (parts []Part) {
	n := o.member("up_to")
	if n == nil {
		return nil
	}
	const example = `{"free": "60%", "*": "100%"}`
	switch {
	case n.kind != isObject || len(n.children) == 0:
		d.report.at(n, "got %s, want an object with a percentage for each tier, such as %s", n, example)
	case l.Tier != Global && l.Tier != OtherTiers:
		d.report.at(n, `want a limit under "global" or "*", which callers of several tiers share`)
	case l.AcrossTiers, l.Notify != limiter.Percentages{}:
		d.report.at(n, "want none beside across_tiers or notify")
	}
	for _, m := range n.members() {
		text, _ := o.text(m)
		percent, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		switch {
		case m.key != OtherTiers && (!isTier(m.key) || d.Declared && !d.hasTier(m.key)):
			d.report.at(m, `got %q, %s; or "*"`, m.key, WantTier(d.Tiers, d.Declared))
		case err != nil || percent < 1 || percent > 100 || strconv.FormatInt(percent, 10)+"%" != text:
			d.report.at(m, `got %s, want "1%%" to "100%%", without fractions`, m)
		default:
			parts = append(parts, Part{m.key, percent})
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Tier, b.Tier) })
	return parts
}
