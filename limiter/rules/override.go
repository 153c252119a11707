package rules

import (
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// maxOwn bounds the number of limits that overrides can create.
const maxOwn = 50_000

// kindName identifies the limits with one name that count by one kind of identity.
type kindName struct{ kind, name string }

// numbers are the numbers that overrides set for the limits with a name.
type numbers struct {
	kindName
	rate algo.Rate
}

func numbersOf(o *document.Override) numbers { return numbers{kindName{o.Kind, o.Name}, o.Rate} }

// merge adds to each limit the different rates of its overrides. It returns false if the overrides create too many
// limits.
func (c *compiler) merge() bool {
	byName, known := map[string][]*document.Override{}, map[numbers]bool{}
	for i := range c.doc.Overrides {
		if o := &c.doc.Overrides[i]; !known[numbersOf(o)] {
			known[numbersOf(o)] = true
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	type key struct {
		hashed
		shadow bool
	}
	total, merged := 0, map[key][]algo.Rate{} // merged: rates of the overrides by limit, because several rules may share a limit
	for _, s := range c.specs {
		k := key{s.is, c.rules.rules[s.rule].Shadow}
		if rates, ok := merged[k]; ok {
			s.own = rates
			continue
		}
		for _, o := range byName[s.Name] {
			if !c.rules.classes[s.class].countsBy(o.Kind) {
				continue
			}
			total++
			if total > maxOwn {
				c.doc.Report(o.Path, "got too many overrides, want overrides for at most %d limits in total; an override counts once for each limit "+
					"with its name", maxOwn)
				return false
			}
			s.own = append(s.own, c.rules.options.clamp(inherit(s.Rate, o.Rate)))
		}
		merged[k] = s.own
	}
	return true
}

// applyOverrides creates the limits of individual callers. Callers with the same numbers share a limit. complete reports
// that all limits of the document were made.
func (c *compiler) applyOverrides(complete bool) {
	valid, unknown := map[numbers]bool{}, map[kindName]bool{}
	for i := range c.doc.Overrides {
		if c.doc.Full() {
			return // enough mistakes; each further override can cost a pass over all limits
		}
		o := &c.doc.Overrides[i]
		of := numbersOf(o)
		if !valid[of] {
			counted := c.rules.countedBy(o.Kind, o.Name)
			if len(counted) == 0 {
				if complete && !unknown[of.kindName] {
					c.doc.Report(o.Path, "%s", c.rules.unknown(o.Kind, o.Name))
				}
				unknown[of.kindName] = true
				continue
			}
			if !c.applyOverride(o, counted) {
				continue
			}
			valid[of] = true
		}
		rates, ok := c.rules.overrides.get(o.Identity)
		if !ok {
			rates = map[string]algo.Rate{}
			c.rules.overrides.set(o.Identity, rates)
		}
		if _, twice := rates[o.Name]; twice {
			c.doc.Report(o.Path, "got two overrides of %s for %s %q, want one", document.Shorten(o.Name), o.Kind, document.Shorten(o.Value))
		}
		rates[o.Name] = o.Rate
	}
}

// applyOverride makes the limits that an override sets in place of the limits counted. It returns true if all numbers are
// valid.
func (c *compiler) applyOverride(o *document.Override, counted []*identified) bool {
	for _, base := range counted {
		key := ownKey{base: base.Limit, override: o.Rate}
		if c.rules.own[key] != nil {
			continue
		}
		l, note, problem := c.rules.replace(base, o.Path, o.Rate, 0, 0)
		if note != "" {
			c.doc.Note(o.Path, "%s", note)
		}
		if problem != nil {
			c.doc.Report(problem.Path, "%s", problem.Message)
			return false
		}
		c.rules.own[key] = l
	}
	return true
}
