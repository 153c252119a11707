package operator

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Usage is the usage of a subject, by the rules and the store.
type Usage struct {
	Subject string    `json:"subject"`
	Hash    string    `json:"hash,omitempty"` // replaces Subject in logs, metrics and events
	At      time.Time `json:"at"`
	// Version is the version of the rules.
	Version int64  `json:"rulesVersion"`
	Source  string `json:"rulesSource,omitempty"` // see Operator.Source
	// Interventions are the block of the caller (weir block), and what weir raise sets for its limits.
	Interventions []rules.Intervention `json:"interventions,omitempty"`
	// Limits are the limits of the subject in the rules, in file order. An address has the limits of the default tier,
	// an API key the limits of the tier in its record, and any other subject the limits of every tier. Limits of other
	// tiers are included if they have usage. Limits that keep one count across tiers appear once, with the numbers of the
	// caller's tier, or else of the tier in which the caller was last counted.
	Limits []LimitUsage `json:"limits"`
	Notes  []string     `json:"notes"`
}

// Usage returns the usage of every limit of a subject. The subject has the form that an Explanation
// uses.
func (o *Operator) Usage(ctx context.Context, subject string) (Usage, error) {
	now := o.Clock()
	c, err := o.counts(ctx, now, subject)
	if err != nil {
		return Usage{}, err
	}
	i, err := o.usage(ctx, now, c)
	if err != nil {
		return i, err
	}
	i.Notes = append(i.Notes, c.notes...)
	i.Interventions = o.Rules(ctx, now).Interventions().Of(c.caller, now)
	return i, nil
}

// counts are the limits of a subject.
type counts struct {
	subject limiter.Subject
	caller  caller.Caller  // whom the subject names
	version int64          // of the rules
	listed  []rules.Listed // for the tier of the caller, if it is known
	notes   []string       // about the record of an API key
}

func (o *Operator) counts(ctx context.Context, now time.Time, subject string) (counts, error) {
	s, values, err := o.parse(subject)
	if err != nil {
		return counts{}, err
	}
	record, notes, unknown := o.readRecord(ctx, &values.Caller)
	if unknown != nil {
		notes = append(notes, unknown.Error())
	}
	r := o.Rules(ctx, now)
	values.At = now
	switch c := &values.Caller; {
	case c.User != "" || len(c.Claims) > 0: // the token has the tier
	case record.ID != "":
		c.Tier = r.Tier(record.Tier)
	case c.APIKey == "" && c.IP.IsValid():
		c.Tier = r.Tier("")
	}
	listed := r.Of(values, s)
	return counts{s, values.Caller, r.Version(), listed, append(notes, recordNotes(r, values.Caller.Limits, listed)...)}, nil
}

func (o *Operator) usage(ctx context.Context, now time.Time, c counts) (Usage, error) {
	i := Usage{Subject: c.subject.String(), Hash: o.hash(c.subject), At: now.UTC(), Version: c.version, Source: o.Source, Notes: []string{}}
	limits, err := o.usages(ctx, now, c.listed)
	if err != nil {
		return i, err
	}
	i.Limits = limits[:0]
	for n, l := range limits {
		if c.listed[n].Reason == "" || l.State.Charged && !shown(c.listed, n) {
			l.OtherTier = c.listed[n].Reason != ""
			i.Limits = append(i.Limits, l)
		}
	}
	if slices.ContainsFunc(c.listed, func(l rules.Listed) bool { return l.Charge.Limit.Spread.Shards > 0 }) {
		i.Notes = append(i.Notes, "state in shards that the rules no longer have is not shown")
	}
	return i, nil
}

// shown reports whether the answer shows the count of the limit n, of another tier, under the limit of the caller's tier.
func shown(listed []rules.Listed, n int) bool {
	of := listed[n].Charge
	return slices.ContainsFunc(listed, func(l rules.Listed) bool {
		other := l.Charge
		return l.Reason == "" && other.Limit.ID == of.Limit.ID && other.Subject == of.Subject && other.Limit.Shadow == of.Limit.Shadow
	})
}

// Reset deletes the usage of every limit of a subject, and any other state of the subject in the
// store. It returns the usage before the reset. Other subjects of the same caller, such as its
// address, keep their usage.
func (o *Operator) Reset(ctx context.Context, subject string) (Usage, error) {
	now := o.Clock()
	c, err := o.counts(ctx, now, subject) // if the record cannot be read, the limits of every tier apply
	if err != nil {
		return Usage{}, err
	}
	u, err := o.usage(ctx, now, c)
	if err != nil {
		return Usage{}, err
	}
	charges := []limiter.Charge{{Subject: c.subject, Limit: &limiter.Limit{}}, {Subject: c.subject, Limit: &limiter.Limit{Shadow: true}}}
	for _, l := range c.listed {
		charges = append(charges, l.Charge)
	}
	for _, l := range o.Limiters {
		if err := l.Reset(ctx, charges); err != nil {
			return Usage{}, err
		}
	}
	u.Limits, u.Notes = slices.DeleteFunc(u.Limits, func(l LimitUsage) bool { return !l.State.Charged }), []string{
		"other subjects of the same caller (an address, a claim, an endpoint) keep their usage; explain shows which of them refuse",
		"for up to a second, other environments may still refuse by what they remember, and use their leases; what they counted in an " +
			"outage stays until it expires",
	}
	return u, nil
}
