package rules

import (
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// maxOwn bounds the number of limits that overrides can create.
const maxOwn = 50_000

// kindName identifies the limits with one name that count by one kind of identity.
type kindName struct{ kind, name string }

// replacements are the limits of the callers with the same override.
type replacements struct {
	limits map[*limiter.Limit]*limiter.Limit // by the limits that they replace
	valid  bool                              // limits is complete
}

// merge finds the overrides with the same numbers, and adds to each limit the rates of its overrides. It returns
// false if the overrides create too many limits.
func (c *compiler) merge() bool {
	type numbers struct {
		kindName
		rate algo.Rate
	}
	byName, known := map[string][]*document.Override{}, map[numbers]*replacements{}
	for i := range c.doc.Overrides {
		o := &c.doc.Overrides[i]
		n := numbers{kindName{o.Kind, o.Name}, o.Rate}
		if known[n] == nil {
			known[n] = &replacements{limits: map[*limiter.Limit]*limiter.Limit{}}
			byName[o.Name] = append(byName[o.Name], o)
		}
		c.replaced = append(c.replaced, known[n])
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
			if total++; total > maxOwn {
				c.doc.Report(o.Path, "got too many overrides, want overrides for at most %d limits in total; an override counts once for each limit with its name", maxOwn)
				return false
			}
			s.own = append(s.own, c.rules.options.clamp(inherit(s.Rate, o.Rate)))
		}
		merged[k] = s.own
	}
	return true
}

// applyOverrides creates the limits of individual callers. Callers with the same numbers share a limit.
func (c *compiler) applyOverrides() {
	for i := range c.doc.Overrides {
		if c.doc.Full() {
			return // enough mistakes; each further override can cost a pass over all limits
		}
		o, own := &c.doc.Overrides[i], c.replaced[i]
		if own.valid = own.valid || c.applyOverride(o, own.limits); !own.valid {
			continue
		}
		names, ok := c.rules.overrides.get(o.Identity)
		if !ok {
			names = map[string]*replacements{}
			c.rules.overrides.set(o.Identity, names)
		}
		if names[o.Name] != nil {
			c.doc.Report(o.Path, "got two overrides of %s for %s %q, want one", document.Shorten(o.Name), o.Kind, document.Shorten(o.Value))
		}
		names[o.Name] = own
	}
}

// applyOverride adds the limits that replace the limits with the override's name. It returns true if there are such
// limits and all replacements are valid.
func (c *compiler) applyOverride(o *document.Override, limits map[*limiter.Limit]*limiter.Limit) bool {
	if c.unknown[kindName{o.Kind, o.Name}] {
		return false
	}
	counted := c.rules.countedBy(o.Kind, o.Name)
	for _, base := range counted {
		if limits[base.Limit] != nil {
			continue
		}
		l, note, problem := c.rules.replace(base, o.Path, o.Rate)
		if note != "" {
			c.doc.Note(o.Path, "%s", note)
		}
		if problem != nil {
			c.doc.Report(problem.Path, "%s", problem.Message)
			return false
		}
		c.noteShallow(o.Path, l.Rate)
		limits[base.Limit] = l
	}
	if len(counted) == 0 {
		c.unknown[kindName{o.Kind, o.Name}] = true
		if c.doc.Complete {
			c.reportUnknown(o)
		}
	}
	return len(counted) > 0
}

// reportUnknown reports an override of a limit that does not exist, and lists the names that exist.
// It reports each pair of kind and name once.
func (c *compiler) reportUnknown(o *document.Override) {
	const most = 10
	names, ok := c.names[o.Kind]
	if !ok {
		for _, s := range c.specs {
			if c.rules.classes[s.class].countsBy(o.Kind) {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		c.names[o.Kind] = names
	}
	_, exists := slices.BinarySearch(names, o.Name)
	switch kind := document.Shorten(o.Kind); {
	case exists: // the limit exists but has a mistake
	case len(names) == 0:
		c.doc.Report(o.Path, "no limit counts by %s", kind)
	default:
		c.doc.Report(o.Path, "no limit of this name counts by %s, want %s%s", kind, quoteAll(names[:min(most, len(names))]), document.DidYouMean(o.Name, names))
	}
}
