package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/weir-limits/weir/limiter"
)

const (
	// maxRules is how many rules are counted apart: CloudWatch is paid for each metric, and a
	// document has up to a thousand rules.
	maxRules   = 10
	otherRules = "(others)" // what the rest is counted under
	maxLabel   = 100        // bytes of a rule's name; CloudWatch takes 1024
)

// ruleCounts is what became of the requests of one rule.
type ruleCounts struct {
	rule                       string // as limits name it
	name                       string // as CloudWatch does
	allowed, refused, shadowed int64
}

func (c *ruleCounts) empty() bool { return c.allowed+c.refused+c.shadowed == 0 }

// byRule counts apart the requests of the first rules of a document, and all others
// together. The zero value counts nothing.
type byRule struct {
	rows [maxRules + 1]ruleCounts // the last one is that of others
	last int                      // that was taken
}

// name has the first of rules counted apart from now on. What is pending stays in the sum.
func (b *byRule) name(rules []string) {
	rules = rules[:min(len(rules), maxRules)]
	if slices.EqualFunc(rules, b.named(), func(rule string, c ruleCounts) bool { return rule == c.rule }) {
		return
	}
	old := b.rows
	*b = byRule{}
	for i, rule := range rules {
		b.rows[i] = ruleCounts{rule: rule, name: dimension(rule)}
	}
	b.rows[maxRules].name = otherRules
	for _, was := range old {
		row := &b.rows[b.find(was.rule)]
		row.allowed += was.allowed
		row.refused += was.refused
		row.shadowed += was.shadowed
	}
}

// named returns the rows that have a name.
func (b *byRule) named() []ruleCounts {
	n := slices.IndexFunc(b.rows[:maxRules], func(c ruleCounts) bool { return c.name == "" })
	if n < 0 {
		n = maxRules
	}
	return b.rows[:n]
}

// find returns the row of a rule.
func (b *byRule) find(rule string) int {
	for i := range maxRules {
		if row := &b.rows[i]; row.name == "" {
			break
		} else if row.rule == rule {
			return i
		}
	}
	return maxRules
}

// add counts a decision: if it was allowed for each rule that has charged it, if it was
// refused for the rule that has.
func (b *byRule) add(d *limiter.Decision) {
	if b.rows[maxRules].name == "" {
		return
	}
	if d.Allowed {
		var counted [maxRules + 1]bool
		for i := range d.Charges {
			if at := b.find(d.Charges[i].Limit.Rule); !counted[at] {
				counted[at] = true
				b.rows[at].allowed++
			}
		}
	} else if d.Limit != nil {
		b.rows[b.find(d.Limit.Rule)].refused++
	}
	if d.Shadowed != nil {
		b.rows[b.find(d.Shadowed.Rule)].shadowed++
	}
}

// take takes the next row that is not empty, in turn; ok is false if there is none.
func (b *byRule) take() (taken ruleCounts, ok bool) {
	for range b.rows {
		b.last = (b.last + 1) % len(b.rows)
		if row := &b.rows[b.last]; !row.empty() {
			taken = *row
			row.allowed, row.refused, row.shadowed = 0, 0, 0
			return taken, true
		}
	}
	return ruleCounts{}, false
}

// pending reports whether there is a row to take.
func (b *byRule) pending() bool {
	return slices.ContainsFunc(b.rows[:], func(c ruleCounts) bool { return !c.empty() })
}

// dimension returns what CloudWatch calls a rule: printable ASCII, not too long, and another
// name for another rule.
func dimension(rule string) string {
	name := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, rule)
	name = name[:min(len(name), maxLabel)]
	if name == rule && strings.TrimSpace(name) != "" && name != otherRules {
		return rule
	}
	sum := sha256.Sum256([]byte(rule))
	return name + "~" + hex.EncodeToString(sum[:4])
}
