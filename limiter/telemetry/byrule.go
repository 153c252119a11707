package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	// maxRules is the number of rules that are counted separately. CloudWatch charges for each
	// metric, and a document can have a thousand rules.
	maxRules   = 10
	otherRules = "(others)" // name of the row that counts all further rules
	maxLabel   = 100        // longest name of a rule in bytes; CloudWatch accepts 1024
)

type ruleCounts struct {
	rule                               string // value of Limit.Rule
	name                               string // value of the metric's dimension
	allowed, refused, shadowed, marked int64
}

func (c *ruleCounts) empty() bool { return c.allowed+c.refused+c.shadowed+c.marked == 0 }

// byRule counts the requests by rule or by exemption: separately for the first ones of a document, and
// together for all others. The zero value counts nothing.
type byRule struct {
	rows [maxRules + 1]ruleCounts // the last row counts all further rules
	last int                      // the row that take returned last
}

// name sets the rules of the document in force. The first maxRules rules are counted separately. name keeps
// the counts that are not yet written.
func (b *byRule) name(rules []string) {
	rules = rules[:min(len(rules), maxRules)]
	if slices.EqualFunc(rules, b.named(), func(rule string, c ruleCounts) bool { return rule == c.rule }) {
		return
	}
	old := b.rows
	*b = byRule{}
	for i, rule := range rules {
		b.rows[i] = ruleCounts{rule: rule, name: RuleName(rule)}
	}
	b.rows[maxRules].name = otherRules
	for _, was := range old {
		row := &b.rows[b.find(was.rule)]
		row.allowed += was.allowed
		row.refused += was.refused
		row.shadowed += was.shadowed
		row.marked += was.marked
	}
}

// named returns the rows of the rules that are counted separately.
func (b *byRule) named() []ruleCounts {
	n := slices.IndexFunc(b.rows[:maxRules], func(c ruleCounts) bool { return c.name == "" })
	if n < 0 {
		n = maxRules
	}
	return b.rows[:n]
}

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

// add counts an allowed decision once for each rule of its limits, and a refused decision for the rule
// that refused it. It also counts a request over a limit in mode mark, and a refusal in shadow mode, for
// the rule of that limit.
func (b *byRule) add(o *Outcome) {
	d := &o.Decision
	if b.rows[maxRules].name == "" {
		return
	}
	if d.Allowed {
		var counted [maxRules + 1]bool
		for i := range o.Charges {
			if at := b.find(o.Charges[i].Limit.Rule); !counted[at] {
				counted[at] = true
				b.rows[at].allowed++
			}
		}
		if d.Over != nil {
			b.rows[b.find(d.Over.Rule)].marked++
		}
	} else if d.Limit != nil {
		b.rows[b.find(d.Limit.Rule)].refused++
	}
	if d.Shadowed != nil {
		b.rows[b.find(d.Shadowed.Rule)].shadowed++
	}
}

func (b *byRule) addExempt(name string) {
	if row := &b.rows[b.find(name)]; row.name != "" {
		row.allowed++
	}
}

// take returns the next row that is not empty and empties it. ok is false if all rows are empty.
func (b *byRule) take() (taken ruleCounts, ok bool) {
	for range b.rows {
		b.last = (b.last + 1) % len(b.rows)
		if row := &b.rows[b.last]; !row.empty() {
			taken = *row
			row.allowed, row.refused, row.shadowed, row.marked = 0, 0, 0, 0
			return taken, true
		}
	}
	return ruleCounts{}, false
}

func (b *byRule) pending() bool {
	return slices.ContainsFunc(b.rows[:], func(c ruleCounts) bool { return !c.empty() })
}

// RuleName returns the name of a rule, a Limit.Rule, in metrics (RuleDimension) and log lines. The name is printable ASCII of bounded
// length, and different rules have different names.
func RuleName(rule string) string {
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
