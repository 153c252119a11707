package rules

import (
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// clamp reduces the burst of a leaky bucket to the requests that leave within Options.MaxDelay.
func (c *compiler) clamp(r algo.Rate) algo.Rate {
	interval := int64(r.Span()) / max(1, r.Requests)
	if r.Algorithm == algo.LeakyBucket && c.o.MaxDelay > 0 && interval > 0 {
		r = r.WithDefaults()
		r.Burst = min(r.Burst, int64(c.o.MaxDelay)/interval+1)
	}
	return r
}

// make creates a limit and adds it to its rule.
func (c *compiler) make(s *spec, horizon time.Duration) {
	r, class := &c.rules.rules[s.rule], &c.rules.classes[s.class]
	parts, label := []string{s.is.tier, s.is.name, s.is.per}, s.Name
	if s.byEndpoint() {
		parts, label = append(parts, s.is.endpoint, s.is.method), r.label()
	}
	rate := c.clamp(s.Rate)
	l, err := limiter.NewLimit(limiter.Limit{
		Name: s.Name, Rule: label, Rate: rate, ID: limiter.NewID(parts...), Global: class.everyone(), Version: c.rules.version, Horizon: horizon,
		Shadow: r.shadow, Mark: s.Mark && !r.shadow, Spread: c.spread(s.Path, s, rate, class.global), Count: s.Count, Notify: s.Notify, OnError: r.onError, LocalProcesses: r.localProcesses,
	})
	if err != nil {
		c.reportField(s.Path, s.Path, r.path, err)
		return
	}
	cost, costPath := s.cost(r)
	if cost > l.MaxCost() {
		c.doc.Report(costPath, "got %d, want at most %d, the capacity of %s", cost, l.MaxCost(), s.Path)
		return
	} else if cost > l.MaxLocalCost() {
		c.doc.Report(costPath, "got %d, want at most %d, the capacity of %s in an outage, divided by local_processes", cost, l.MaxLocalCost(), s.Path)
		return
	}
	made := limit{l, s.class, s.Path, s.Only, cost}
	key := limitKey{l.ID, l.Shadow}
	known := c.known[key]
	switch {
	case known == nil:
		known = &identified{hashed: s.is, made: made, spec: s}
		c.known[key], c.named[s.Name] = known, append(c.named[s.Name], known)
		if !c.labels[label] {
			c.labels[label], c.rules.labels = true, append(c.rules.labels, label)
		}
	case !c.shares(s, made, known):
		return
	default:
		made.Limit = known.made.Limit
	}
	if cost > known.cost {
		known.cost, known.costPath = cost, costPath
	}
	r.limits[s.Tier] = append(r.limits[s.Tier], made)
}

// cost returns the cost that a request charges at admission, and the path of the field that sets this
// cost.
func (s *spec) cost(r *rule) (cost int64, path string) {
	switch s.Count.Of {
	case limiter.CountRequests:
		return r.cost, document.Join(r.path, "cost")
	case limiter.CountFailures, limiter.CountConcurrent:
		return 1, document.Join(s.Path, "count")
	case limiter.CountCost, limiter.CountBytes:
	}
	return s.Reserve, document.Join(s.Path, "reserve")
}

// shares returns whether a limit can share the count of an earlier limit with the same ID (known). If it
// cannot, shares reports the mistake.
func (c *compiler) shares(s *spec, made limit, known *identified) bool {
	was := known.made
	switch {
	case known.hashed != s.is:
		c.doc.Report(document.Join(s.Path, "name"), "has the same hash as the name of %s, by chance; choose another name", was.path)
	case s.byEndpoint():
		c.doc.Report(s.Path, "is the same limit as %s; give one of them another name", was.path)
	case was.Rate != made.Rate || was.Spread != made.Spread:
		c.doc.Report(s.Path, "shares the count of %s, so it must have the same numbers", was.path)
	case was.Count != made.Count:
		c.doc.Report(s.Path, "shares the count of %s, so it must have the same \"count\", \"failure_status\" and \"cost_field\"", was.path)
	case was.Notify != made.Notify:
		c.doc.Report(s.Path, "shares the count of %s, so it must have the same \"notify\"", was.path)
	case was.only != made.only:
		c.doc.Report(s.Path, "shares the count of %s, so it must have the same \"only\"", was.path)
	case was.Mark != made.Mark:
		c.doc.Report(s.Path, "shares the count of %s, so it must have the same mode", was.path)
	case was.OnError != made.OnError || was.LocalProcesses != made.LocalProcesses:
		c.doc.Report(s.Path, "shares the count of %s, so their rules must have the same on_error and local_processes", was.path)
	default:
		return true
	}
	return false
}

func perSecond(r algo.Rate) int64 { return r.Requests * int64(time.Second) / int64(r.Span()) }

// spread returns the spread of a limit. If the document does not set one, a large limit that counts
// all callers gets adaptive shares, and any other large limit gets leases.
func (c *compiler) spread(path string, of *spec, r algo.Rate, global bool) limiter.Spread {
	s := of.Spread
	large := c.o.LeaseAbove > 0 && perSecond(r) > c.o.LeaseAbove && r.Algorithm != algo.SlidingLog && r.Algorithm != algo.LeakyBucket
	switch {
	case s != (limiter.Spread{}) || !large || of.Count.Settles() || of.Notify != limiter.Percentages{}:
		return s
	case global:
		s.Adaptive = true
		c.doc.Note(path, "more than %d requests a second: on DynamoDB each environment admits a share of the limit that follows its share of the demand. "+
			"The sum stays within 5 %% of the limit, except for some seconds after demand rises. Callers never exceed a limit with the field lease", c.o.LeaseAbove)
	case capacity(r) >= 2: // a lease of a limit below 2 would take the whole limit
		s.Lease = min(max(2, perSecond(r)/100), capacity(r))
		bucket := ""
		if r.Algorithm == algo.TokenBucket {
			bucket = ". Leases save few writes of a bucket: above 1,000 requests a second DynamoDB throttles its item. Use a window or shards"
		}
		c.doc.Note(path, "more than %d requests a second: on DynamoDB an environment leases up to %d requests at once%s", c.o.LeaseAbove, s.Lease, bucket)
	}
	return s
}

// reportField reports the reason why the numbers at path make no valid limit. base is the path of the
// limit, and rule is the path of its rule.
func (c *compiler) reportField(path, base, rule string, err error) {
	field := fieldOf(err)
	switch {
	case field == nil:
		c.doc.Report(path, "%v", err)
	case field.Field == document.LocalProcesses && path == base:
		c.doc.Report(document.Join(rule, field.Field), "got %v, want %s for %s", field.Got, field.Want, path)
	case field.Field == document.LocalProcesses:
		c.doc.Report(path, "does not fit %s: got %v, want %s", document.Join(rule, field.Field), field.Got, field.Want)
	case path != base && slices.Contains(keptFields, field.Field):
		c.doc.Report(path, "does not fit %s: got %v, want %s", document.Join(base, field.Field), field.Got, field.Want)
	default:
		c.doc.Report(document.Join(path, field.Field), "got %v, want %s", field.Got, field.Want)
	}
}

// quoteAll returns the quoted words, joined with commas and "or".
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return document.AnyOf(quoted)
}
