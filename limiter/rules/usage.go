package rules

import (
	"net/http"
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
	return r.rules[len(r.rules)-1].pattern.text
}

// asksUsage reports whether a request gets the usage. matched are the rules for its path. A request with
// a bad credential does not get it, and is charged like any other request.
func (r *Rules) asksUsage(q *Request, matched []int) bool {
	get := q.Method == http.MethodGet || q.Method == http.MethodHead
	return r.usage && get && !q.Caller.Rejected && slices.Contains(matched, len(r.rules)-1)
}

// isUsage reports whether all readings of a path are the usage endpoint.
func (r *Rules) isUsage(paths []reading) bool {
	p := &r.rules[len(r.rules)-1].pattern
	return !slices.ContainsFunc(paths, func(r reading) bool { return !p.matches(r) })
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
	q.Caller.Tier = r.Tier(q.Caller.Tier)
	seen := map[*limiter.Limit]bool{}
	subjects := map[limiter.Subject]bool{}
	for i := range r.rules[:r.Len()] {
		rule := &r.rules[i]
		key := q.Caller.Tier
		if _, ok := rule.limits[key]; !ok {
			key = document.OtherTiers
		}
		for _, key := range []string{key, document.Global} {
			for _, l := range rule.limits[key] {
				class := &r.classes[l.class]
				subject := class.subject(&q)
				if seen[l.Limit] || l.Shadow || !l.applies(&q.Caller) || class.everyone() || class.byRequest() || subject == (limiter.Subject{}) {
					continue
				}
				own := r.apply(class, &q.Caller, l.Limit)
				for _, s := range own.limit.Subjects(subject) {
					subjects[s] = true
				}
				if len(list) == maxOwnLimits || len(subjects) > maxOwnSubjects {
					return list, false
				}
				seen[l.Limit] = true
				list = append(list, Listed{Path: l.path, Tier: key, Endpoint: rule.pattern.text, Method: rule.method, Charge: limiter.Charge{Subject: subject, Limit: own.limit, Cost: l.cost}, Overridden: own.overridden, Ignored: own.mistake})
			}
		}
	}
	return list, true
}

// byRequest reports whether a part of the class depends on the request and not on the caller.
func (c *class) byRequest() bool {
	return slices.ContainsFunc(c.parts, func(p part) bool { return !document.IsIdentity(p.word) })
}

// checkUsage checks the endpoint of the rule that readUsage added.
func (c *compiler) checkUsage() {
	if c.rules.usage = c.doc.Usage; !c.rules.usage {
		return
	}
	p := c.rules.rules[len(c.rules.rules)-1].pattern
	if p.below || slices.Contains(p.segments, parameter) {
		c.doc.Report("usage.endpoint", "got %q, want a path without parameters and *", document.Shorten(p.text))
	}
}
