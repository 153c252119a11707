package rules

import (
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// These constants bound the work for one answer of the usage endpoint.
const (
	maxOwnLimits   = 100
	maxOwnSubjects = 20 // each subject is one read of the store
)

// UsageEndpoint returns the path at which callers get their usage. It returns "" if the document does
// not have one.
func (r *Rules) UsageEndpoint() string {
	if !r.usage {
		return ""
	}
	return r.rules[len(r.rules)-1].Endpoint
}

// IsUsage reports whether all readings of a path are the usage endpoint.
func (r *Rules) IsUsage(p Path) bool {
	if !r.usage {
		return false
	}
	paths, ok := r.spelling.readings(nil, p)
	return ok && r.isUsage(paths)
}

// Own returns the limits of the caller's tier that count its requests, with their subjects, in file
// order. It leaves out the limits that all callers share, limits in shadow mode, and limits that count by
// the path, the method or a header field. complete is false if there are too many limits.
func (r *Rules) Own(q Request) (list []Listed, complete bool) {
	c := charger{rules: r}
	q.Caller.Tier = r.TierOf(&q.Caller)
	type one struct {
		*limiter.Limit
		limiter.Subject
	}
	seen := map[one]bool{}
	subjects := map[limiter.Subject]bool{}
	for i := range r.rules[:r.Len()] {
		limits := r.rules[i].of(q.Caller.Tier)
		for _, l := range slices.Concat(limits[0], limits[1]) {
			class := &r.classes[l.class]
			elements, _ := class.elements(&q)
			for q.element = range elements {
				subject, why := c.subject(&q, &l)
				if seen[one{l.Limit, subject}] || l.Shadow || why != "" || class.everyone() || class.byRequest() {
					continue
				}
				own := r.apply(&q, &l, false)
				for _, s := range own.limit.Subjects(subject) {
					subjects[s] = true
				}
				if len(list) == maxOwnLimits || len(subjects) > maxOwnSubjects {
					return list, false
				}
				seen[one{l.Limit, subject}] = true
				list = append(list, r.list(&l, subject, own))
			}
		}
	}
	return list, true
}

// Of returns the limits that count in subject, for every path and tier, in file order. q must contain the values in
// subject, because they select the overrides; it needs no path. A limit that several rules share appears once. If each
// endpoint of the caller has its own item, the list includes these limits, and Charge.Subject identifies the item. If
// q.Caller has a tier, the limits of other tiers have a Reason.
func (r *Rules) Of(q Request, subject limiter.Subject) []Listed {
	if q.Parameters == nil {
		q.Parameters = map[string]string{}
	}
	var list []Listed
	seen := map[*limiter.Limit]int{}                  // index in the list
	counts := make([]limiter.Subject, len(r.classes)) // the zero Subject for a class that does not count in subject
	for i := range r.classes {
		if s := r.classes[i].subject(&q); s == subject || r.classes[i].who(&q) == subject {
			counts[i] = s
		}
	}
	for l := range r.limits() {
		if counts[l.class] == (limiter.Subject{}) {
			continue
		}
		i, ok := seen[l.Limit]
		if !ok {
			i = len(list)
			seen[l.Limit] = i
			list = append(list, r.list(l, counts[l.class], r.apply(&q, l, q.Caller.Tier == "")))
			list[i].Reason = "applies to other tiers"
		}
		if q.Caller.Tier == "" || r.rules[l.rule].applies(q.Caller.Tier, l) {
			list[i].Reason = ""
		}
	}
	return list
}

func (r *rule) applies(tier string, l *limit) bool {
	is := func(other limit) bool { return other.Path == l.Path }
	of := r.of(tier)
	return slices.ContainsFunc(of[0], is) || slices.ContainsFunc(of[1], is)
}

// byRequest reports whether a part of the class depends on the request and not on the caller.
func (c *class) byRequest() bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return !document.IsIdentity(p.word) })
}

// checkUsage checks the endpoint of the rule that readUsage added.
func (c *compiler) checkUsage() {
	c.rules.usage = c.doc.Usage
	if !c.rules.usage {
		return
	}
	p := c.rules.rules[len(c.rules.rules)-1].pattern
	if p.below || slices.Contains(p.segments, parameter) {
		c.doc.Report("usage.endpoint", "got %q, want a path without parameters and *", document.Shorten(p.text))
	}
}
