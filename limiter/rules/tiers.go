package rules

import (
	"math"
	"strings"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// SimilarTiers returns the Notes about tiers whose name is probably a misspelling of another tier. The limits of such
// a tier never apply. A document that declares its tiers has none.
func (r *Rules) SimilarTiers() Problems { return r.similar }

// tierUse is how a document uses the name of a tier.
type tierUse struct {
	name, lower string
	path        string // the first limits of the tier; "" for a name that is known to be right
	where       string // for messages
	rules       int    // rules that name the tier
	reported    bool
}

// tierUses returns the tiers of a document in file order, after the names that are known to be right.
func (c *compiler) tierUses() (list []*tierUse) {
	byName := map[string]*tierUse{}
	add := func(name, path, where string, rules int) {
		byName[name] = &tierUse{name: name, lower: strings.ToLower(name), path: path, where: where, rules: rules}
		list = append(list, byName[name])
	}
	add(document.Global, "", "the limits of all callers together", math.MaxInt)
	add(c.doc.DefaultTier, "", "the default_tier", math.MaxInt)
	for i := range c.doc.Rules {
		r := &c.doc.Rules[i]
		for _, tier := range r.Tiers {
			path := document.Join(document.Join(r.Path, "limits"), tier)
			if use := byName[tier]; use == nil {
				add(tier, path, path, 1)
			} else if use.path != "" {
				use.rules++
			}
		}
	}
	return list
}

// noteSimilarTiers notes each tier with a name that is similar to another one. Of the two, it reports the one that
// fewer rules name.
func (c *compiler) noteSimilarTiers() {
	if c.doc.Declared {
		return
	}
	list := c.tierUses()
	for i, later := range list {
		for _, earlier := range list[:i] {
			suspect, other := later, earlier
			if earlier.rules < later.rules {
				suspect, other = earlier, later
			}
			if suspect.path == "" || suspect.reported || !similar(later.lower, earlier.lower) {
				continue
			}
			suspect.reported = true
			c.rules.similar = append(c.rules.similar, c.doc.Note(suspect.path, "the tier %q is similar to %q (%s); if it is misspelled, no caller gets these limits; if both are right, list all tiers in \"tiers\"", suspect.name, other.name, other.where))
		}
	}
}

// shortestSimilar is the length from which a name can be a misspelling. In a shorter name, one character is often all
// that distinguishes two tiers.
const shortestSimilar = 4

// tierSeparators are the characters of a tier that are no letters and digits.
const tierSeparators = "_.-"

// similar reports whether two lower-case names of tiers are equal, or differ in one character or in the order of two
// characters: most misspellings do. It returns false if they differ in a digit or in a part of one letter, because
// such names are usually chosen: tier1 and tier2, or team-s and team-m.
func similar(a, b string) bool {
	if a == b {
		return true
	}
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	if longer < shortestSimilar || longer-shorter > 1 {
		return false
	}
	begin, end := 0, 0 // lengths of the common prefix and suffix
	for begin < shorter && a[begin] == b[begin] {
		begin++
	}
	for end < shorter-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	x, y := a[begin:len(a)-end], b[begin:len(b)-end]
	switch {
	case max(len(x), len(y)) > 2: // x+y would allocate
		return false
	case strings.ContainsAny(x+y, "0123456789"):
		return false
	case len(x) == 1 && len(y) == 1:
		starts := begin == 0 || strings.Contains(tierSeparators, a[begin-1:begin])
		ends := end == 0 || strings.Contains(tierSeparators, a[len(a)-end:len(a)-end+1])
		return !starts || !ends
	case len(x) == 2 && len(y) == 2:
		return x[0] == y[1] && x[1] == y[0]
	}
	return len(x)+len(y) == 1
}
