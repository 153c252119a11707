package operator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/rules"
)

// Usage is the usage of a subject, by the rules and the store.
type Usage struct {
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	// Version is the version of the rules.
	Version int64  `json:"rulesVersion"`
	Source  string `json:"rulesSource,omitempty"` // see Operator.Source
	// Limits are the limits of the subject in the rules, in file order. An address has the limits of the default tier,
	// an API key the limits of the tier in its record, and any other subject the limits of every tier. Limits of other
	// tiers are included if they have usage.
	Limits []Limit `json:"limits"`
	// Others are limits in the store that the rules do not describe, such as removed limits.
	Others []Other  `json:"others"`
	Notes  []string `json:"notes"`
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

// Forgotten is the result of a reset.
type Forgotten struct {
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	// Limits and Others are the usage just before the reset.
	Limits []Limit `json:"limits"`
	Others []Other `json:"others"`
	// Subjects are the subjects that were removed from the store.
	Subjects []string `json:"subjects"`
	Notes    []string `json:"notes"`
}

// Usage returns the usage of every limit of a subject. The subject has the form that an Explanation
// uses.
func (o *Operator) Usage(ctx context.Context, subject string) (Usage, error) {
	s, values, err := o.parse(subject)
	if err != nil {
		return Usage{}, err
	}
	now := o.Clock()
	record, notes, unknown := o.readRecord(ctx, &values.Caller)
	if unknown != nil {
		notes = append(notes, unknown.Error())
	}
	r := o.Rules(ctx, now)
	switch c := &values.Caller; {
	case c.User != "" || len(c.Claims) > 0: // the token has the tier
	case record.ID != "":
		c.Tier = r.Tier(record.Tier)
	case c.APIKey == "" && c.IP.IsValid():
		c.Tier = r.Tier("")
	}
	listed := r.Of(values, s)
	i, err := o.usage(ctx, now, s, listed, r.Version())
	i.Notes = append(append(i.Notes, notes...), recordNotes(r, values.Caller.Limits, listed)...)
	return i, err
}

func (o *Operator) usage(ctx context.Context, now time.Time, s limiter.Subject, listed []rules.Listed, version int64) (Usage, error) {
	i := Usage{Subject: s.String(), At: now.UTC(), Version: version, Source: o.Source, Others: []Other{}}
	limits, err := o.usages(ctx, now, listed)
	if err != nil {
		return i, err
	}
	i.Limits = limits[:0]
	for n, l := range limits {
		if listed[n].Reason == "" || l.State.Charged {
			i.Limits = append(i.Limits, l)
		}
	}
	if i.Others, err = o.others(ctx, now, s, listed); err != nil {
		return i, err
	}
	i.Notes = append([]string{"state in shards that the rules no longer have is not shown"}, o.notes(listed)...)
	return i, nil
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
func (o *Operator) Reset(ctx context.Context, subject string) (Forgotten, error) {
	s, values, err := o.parse(subject)
	if err != nil {
		return Forgotten{}, err
	}
	now := o.Clock()
	_, _, _ = o.readRecord(ctx, &values.Caller) // if the record cannot be read, the limits of the key's tier apply
	r := o.Rules(ctx, now)
	listed := r.Of(values, s)
	before, err := o.usage(ctx, now, s, listed, r.Version())
	if err != nil {
		return Forgotten{}, err
	}
	charges := []limiter.Charge{{Subject: s, Limit: &limiter.Limit{}}, {Subject: s, Limit: &limiter.Limit{Shadow: true}}}
	for _, l := range listed {
		charges = append(charges, l.Charge)
	}
	for _, l := range o.Limiters {
		if err := l.Reset(ctx, charges); err != nil {
			return Forgotten{}, err
		}
	}
	f := Forgotten{Subject: before.Subject, At: before.At, Limits: []Limit{}, Others: before.Others, Notes: o.afterwards(listed)}
	for _, l := range before.Limits {
		if l.State.Charged {
			f.Limits = append(f.Limits, l)
		}
	}
	for _, c := range charges {
		for _, subject := range c.Limit.Subjects(c.Subject) {
			if text := subject.String(); !slices.Contains(f.Subjects, text) {
				f.Subjects = append(f.Subjects, text)
			}
		}
	}
	return f, nil
}

// afterwards returns notes about the counts that a reset does not delete.
func (o *Operator) afterwards(listed []rules.Listed) []string {
	notes := []string{"other subjects of the same caller (an address, a claim, an endpoint) keep their usage; explain shows which of them refuse"}
	if o.Inside && o.Kind == memory {
		return notes
	}
	notes = append(notes, "for up to a second, other environments may still refuse from their denial caches, and may still use their leases")
	var sync, own bool
	for _, l := range listed {
		limit := l.Charge.Limit
		sync = sync || limit.Spread.Sync > 0 || limit.Spread.Adaptive
		own = own || limit.OnError == limiter.OnErrorLocal
	}
	if sync {
		notes = append(notes, "other environments still report what they have counted since their last report for limits with sync_ms or adaptive shares")
	}
	if own {
		notes = append(notes, "other environments keep what they count in their own memory (the share of on_error local)")
	}
	return notes
}
