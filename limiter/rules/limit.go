package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules/document"
)

// clamp reduces the burst of a leaky bucket to the requests that leave within MaxDelay.
func (o Options) clamp(r algo.Rate) algo.Rate {
	interval := int64(r.Span()) / max(1, r.Requests)
	if r.Algorithm.Queues() && o.MaxDelay > 0 && interval > 0 {
		r = r.WithDefaults()
		most := int64(o.MaxDelay)/interval + 1
		r.Burst, r.Of, r.Least = min(r.Burst, most), min(r.Of, most), min(r.Least, most)
	}
	return r
}

func (s *spec) id() limiter.ID {
	parts := []string{s.count().tier, s.is.name, s.is.per}
	if s.byEndpoint() {
		parts = append(parts, s.is.endpoint, s.is.method)
	}
	return limiter.NewID(parts...)
}

// make creates a limit and adds it to its rule.
func (c *compiler) make(s *spec, horizon time.Duration) {
	r, class := &c.rules.rules[s.rule], &c.rules.classes[s.class]
	label := s.Name
	if s.byEndpoint() {
		label = r.label()
	}
	l := s.Limit.Limit
	l.Rule, l.ID, l.Global, l.Version, l.Horizon = label, s.id(), class.everyone(),
		min(c.rules.version+c.rules.options.Floor, limiter.MaxVersion), horizon
	l.Shadow, l.Mark, l.OnError, l.LocalProcesses = r.Shadow, s.Mark && !r.Shadow, r.OnError, r.LocalProcesses
	l.Rate = s.withLeast(c.rules.options.clamp(s.Rate))
	var note string
	l.Spread, note = c.rules.options.spread(s, l.Rate, class.global)
	if note != "" {
		c.doc.Note(s.Path, "%s", note)
	}
	made, err := c.rules.options.newLimit(l)
	if err != nil {
		problem := c.rules.mistake(s.Path, s, err)
		c.doc.Report(problem.Path, "%s", problem.Message)
		return
	}
	cost, costPath := s.cost(r)
	if cost > made.MaxCost() {
		c.doc.Report(costPath, "got %s, want at most %d, the capacity of %s", s.written(cost), made.MaxCost(), s.Path)
		return
	} else if cost > made.MaxLocalCost() {
		c.doc.Report(costPath, "got %d, want at most %d, the capacity of %s in an outage, divided by local_processes", cost, made.MaxLocalCost(),
			s.Path)
		return
	}
	if !c.checkParts(s, made, cost) {
		return
	}
	if first := c.ids[made.ID]; first == nil {
		c.ids[made.ID] = s
	} else if first.count() != s.count() {
		c.doc.Report(document.Join(s.Path, "name"), "has the same hash as the name of %s, by chance; choose another name", first.Path)
		return
	}
	key := s.key(made)
	known := c.known[key]
	if known == nil {
		known = &identified{limit: limit{Limit: made, spec: s}}
		c.known[key], c.rules.named[s.Name] = known, append(c.rules.named[s.Name], known)
		if !c.labels[label] {
			c.labels[label], c.rules.labels = true, append(c.rules.labels, label)
		}
	} else if !c.shares(s, made, known) {
		return
	}
	if cost > known.cost {
		known.cost, known.costPath = cost, costPath
	}
	if s.From != nil && s.From.MostReserve > 0 {
		known.constant = &meter.Source{Paths: s.From.Paths}
	}
	r.tiers[s.Tier] = append(r.tiers[s.Tier], limit{Limit: known.Limit, spec: s, identified: known, cost: cost})
	r.global = r.tiers[document.Global]
}

// cost returns the cost that a request charges at admission, and the path of the field that sets this
// cost.
func (s *spec) cost(r *rule) (cost int64, path string) {
	switch s.Count.Of {
	case limiter.CountRequests:
		return r.Cost, document.Join(r.Path, "cost")
	case limiter.CountFailures, limiter.CountConcurrent:
		return 1, document.Join(s.Path, "count")
	case limiter.CountCost, limiter.CountBytes:
	}
	return s.Reserve, document.Join(s.Path, "reserve")
}

// written returns a cost with the numbers of the document that make it.
func (s *spec) written(cost int64) string {
	if s.From == nil || s.From.MostReserve == 0 || s.From.MostReserve == cost {
		return fmt.Sprint(cost)
	}
	return fmt.Sprintf("%d (%d times the highest weight)", cost, s.From.MostReserve)
}

// shares returns whether a limit can share the count of an earlier limit with the same ID (known). If it
// cannot, shares reports the mistake.
func (c *compiler) shares(s *spec, made *limiter.Limit, known *identified) bool {
	was := known.Limit
	if s.byEndpoint() {
		c.doc.Report(s.Path, "is the same limit as %s; give one of them another name", known.Path)
		return false
	}
	for _, field := range []struct {
		differs bool
		want    string
	}{
		{known.spec.Rate.Regions != s.Rate.Regions, `it must have the same "regions"`},
		{!slices.Equal(known.UpTo, s.UpTo), `it must have the same "up_to"`},
		{was.Rate != made.Rate || was.Spread != made.Spread, "it must have the same numbers"},
		{was.Count != made.Count, `it must have the same "count" and "failure_status"`},
		{was.Notify != made.Notify, `it must have the same "notify"`},
		{known.Only != s.Only, `it must have the same "only"`},
		{was.Mark != made.Mark, "it must have the same mode"},
		{was.OnError != made.OnError || was.LocalProcesses != made.LocalProcesses, "their rules must have the same on_error and local_processes"},
	} {
		if field.differs {
			c.doc.Report(s.Path, "shares the count of %s, so %s", known.Path, field.want)
			return false
		}
	}
	return true
}

// newLimit makes a limit. If regions share it, it is that of the region of this process.
func (o Options) newLimit(l limiter.Limit) (*limiter.Limit, error) {
	if l.Rate.Regions == (algo.Regions{}) {
		return limiter.NewLimit(l)
	}
	l.Rate.Regions = o.Regions
	if o.Regions != (algo.Regions{}) {
		return limiter.NewLimit(l)
	}
	if !o.OneRegion {
		return nil, &algo.FieldError{Field: "regions", Got: "shared",
			Want: "each: this process has no list of the regions, so each region would admit the whole limit"}
	}
	whole := l
	l.Rate.Regions = algo.Regions{Of: 2} // the fewest
	if _, err := limiter.NewLimit(l); err != nil {
		return nil, err
	}
	return limiter.NewLimit(whole)
}

// perSecond returns the requests a second of a rate, at most those of MaxRequests.
func perSecond(r algo.Rate) int64 {
	return min(r.Requests, algo.MaxRequests) * int64(time.Second) / int64(r.Span())
}

// spread returns the spread of a limit with a rate, and a note on it for the author. If the document does not set one,
// a large limit that counts all callers gets Spread.Sync, and any other large limit gets leases.
func (o Options) spread(of *spec, r algo.Rate, global bool) (s limiter.Spread, note string) {
	s = of.Spread
	large := o.LeaseAbove > 0 && perSecond(r) > o.LeaseAbove && r.Algorithm.NoLease() == ""
	switch {
	case large && r.Of > 0:
		note = fmt.Sprintf("more than %d requests a second: a limit with across_tiers or up_to has no leases, so DynamoDB throttles its item "+
			"above 1,000 a second, and requests get subject_busy", o.LeaseAbove)
	case large && r.Regions != (algo.Regions{}):
		note = fmt.Sprintf("more than %d requests a second: regions share it without leases, so DynamoDB throttles its item in a region that "+
			"admits more than 1,000 a second", o.LeaseAbove)
	case s != (limiter.Spread{}) || !large || of.Count.Settles() || r.Of > 0 || of.Notify != limiter.Percentages{}:
	case global:
		s.Sync = limiter.DefaultSync
		note = fmt.Sprintf("more than %d requests a second: on DynamoDB each environment admits a share of the limit that follows its share "+
			"of the demand. "+
			"The sum stays within 5 %% of the limit, except for some seconds after demand rises. Callers never exceed a limit with the field lease",
			o.LeaseAbove)
	case r.Capacity() >= 2: // a lease of a limit below 2 would take the whole limit
		s.Lease = min(max(2, perSecond(r)/100), r.Capacity())
		note = fmt.Sprintf("more than %d requests a second: on DynamoDB an environment leases up to %d requests at once", o.LeaseAbove, s.Lease)
		if r.Algorithm.HasBurst() {
			note += ". Leases save few writes of a bucket: above 1,000 requests a second DynamoDB throttles its item. Use a window or shards"
		}
	}
	return s, note
}

// keptFields are the fields of a limit that its overrides do not change.
var keptFields = []string{"lease", "shards", "sync_ms", "notify", "across_tiers", "up_to", "regions"}

// mistake returns the reason why the numbers at path make no valid limit. They are the numbers of the limit s, or
// replace them.
func (r *Rules) mistake(path string, s *spec, err error) Problem {
	rule := r.rules[s.rule].Path
	field, ok := errors.AsType[*algo.FieldError](err)
	if ok && field.Field == "of" {
		field.Field = "across_tiers"
		if s.UpTo != nil {
			field.Field = "up_to"
		}
	}
	switch {
	case !ok:
		return Problem{Path: path, Message: err.Error()}
	case field.Field == document.LocalProcesses && path == s.Path:
		return Problem{Path: document.Join(rule, field.Field), Message: fmt.Sprintf("got %v, want %s for %s", field.Got, field.Want, path)}
	case field.Field == document.LocalProcesses:
		rule = document.Join(rule, field.Field)
	case path != s.Path && slices.Contains(keptFields, field.Field):
		rule = document.Join(s.Path, field.Field)
	default:
		return Problem{Path: document.Join(path, field.Field), Message: fmt.Sprintf("got %v, want %s", field.Got, field.Want)}
	}
	return Problem{Path: path, Message: fmt.Sprintf("does not fit %s: got %v, want %s", rule, field.Got, field.Want)}
}

// quoteAll returns the quoted words, joined with commas and "or".
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return document.AnyOf(quoted)
}
