package operator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
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
	Limits []Limit `json:"limits"`
	// Others are limits in the store that the rules do not describe, such as removed limits.
	Others []Other `json:"others"`
	// Removed are the subjects that a reset removed from the store. Limits and Others are then the usage just before.
	Removed []string `json:"removed,omitempty"`
	Notes   []string `json:"notes"`
}

// Other is the state of a limit that the rules do not describe. The name and the tier of the limit are
// unknown, because a store contains only a hash of both.
type Other struct {
	Subject string `json:"subject"` // subject under which the store counts the limit
	ID      string `json:"id"`
	// Parameters are the parameters of the algorithm, such as "bucket/600ms/20".
	Parameters string    `json:"parameters"`
	Version    int64     `json:"rulesVersion"` // version of the rules that wrote the state
	Capacity   int64     `json:"capacity"`
	Remaining  int64     `json:"remaining"`
	FullAt     time.Time `json:"fullAt"`
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
	i := Usage{Subject: c.subject.String(), Hash: o.hash(c.subject), At: now.UTC(), Version: c.version, Source: o.Source, Others: []Other{},
		Notes: []string{}}
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
	i.Others, err = o.others(ctx, now, c.subject, c.listed)
	if err != nil {
		return i, err
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

// others returns the state in the store that no listed limit describes.
func (o *Operator) others(ctx context.Context, now time.Time, s limiter.Subject, listed []rules.Listed) ([]Other, error) {
	type place struct {
		subject limiter.Subject
		id      limiter.ID
	}
	known := map[place]bool{}
	items := []limiter.Subject{s, shadowOf(s)}
	for _, l := range listed {
		own := l.Charge.Subject
		for _, subject := range l.Charge.Limit.Subjects(own) {
			known[place{subject, l.Charge.Limit.ID}] = true
		}
		if o.Kind == memory { // a store in memory has no shards: it counts the limit under the subject of the charge
			known[place{own, l.Charge.Limit.ID}] = true
		}
		if !slices.Contains(items, own) { // the limit is in the item of one endpoint
			items = append(items, own, shadowOf(own))
		}
	}
	others, at := []Other{}, algo.InstantOf(now)
	for _, subject := range items {
		entries, err := o.Store.Inspect(ctx, subject)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if known[place{subject, e.ID}] {
				continue
			}
			state := e.State
			if e.Machine.Ahead(state, at) {
				state, _ = algo.Clamp(e.Machine, state, e.Skew, at)
			}
			others = append(others, Other{
				Subject: subject.String(), ID: e.ID.String(), Parameters: e.Machine.Fingerprint(), Version: e.Version,
				Capacity: e.Machine.Capacity(), Remaining: e.Machine.Remaining(state, at), FullAt: now.Add(e.Machine.ResetAfter(state, at)).UTC(),
			})
		}
	}
	slices.SortStableFunc(others, func(a, b Other) int { return cmp.Compare(b.Version, a.Version) })
	return others, nil
}

// shadowOf returns the subject in which limits in shadow mode count s.
func shadowOf(s limiter.Subject) limiter.Subject {
	return (&limiter.Limit{Shadow: true}).Subjects(s)[0]
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
	u.Limits, u.Notes = slices.DeleteFunc(u.Limits, func(l Limit) bool { return !l.State.Charged }), o.afterwards()
	for _, charge := range charges {
		for _, subject := range charge.Limit.Subjects(charge.Subject) {
			if text := subject.String(); !slices.Contains(u.Removed, text) {
				u.Removed = append(u.Removed, text)
			}
		}
	}
	return u, nil
}

// afterwards returns notes about the counts that a reset does not delete.
func (o *Operator) afterwards() []string {
	notes := []string{"other subjects of the same caller (an address, a claim, an endpoint) keep their usage; explain shows which of them " +
		"refuse"}
	if o.Kind != memory {
		notes = append(notes, "for up to a second, other environments may still refuse by what they remember, and use their leases; what they "+
			"counted in an outage stays until it expires")
	}
	return notes
}
