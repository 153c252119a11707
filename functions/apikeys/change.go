package apikeys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// ErrChanged means that another operator changed a key at the same time.
var ErrChanged = errors.New("another operator changed the key at the same time; run the command again")

// Change is a change of all keys of an id. A nil field changes nothing.
type Change struct {
	Tier      *string // "" means the default tier
	Suspended *bool
	Limits    *LimitsChange
}

// LimitsChange is a change of a caller's own limits.
type LimitsChange struct {
	Clear  bool                   // removes all limits and the anchor before the other changes
	Rates  map[string]caller.Rate // the zero Rate removes a limit
	Anchor *string                // "" removes the anchor
	// Check returns an error if the new limits do not fit the rules. It may be nil.
	Check func(*caller.Limits) error
}

// Apply returns the changed limits. old may be nil. Changed of the result is higher than Changed of old, even if the
// clock of another operator was ahead.
func (c *LimitsChange) Apply(old *caller.Limits, now time.Time) (*caller.Limits, error) {
	rates, anchor := map[string]caller.Rate{}, ""
	if old != nil && !c.Clear {
		if err := old.Mistake(); err != nil {
			return nil, fmt.Errorf("%w; replace all limits (--no-limits, with --limit for new ones)", err)
		}
		for _, name := range old.Names() {
			rates[name], _ = old.Rate(name)
		}
		anchor = old.Anchor()
	}
	maps.Copy(rates, c.Rates)
	maps.DeleteFunc(rates, func(_ string, r caller.Rate) bool { return r == caller.Rate{} })
	if c.Anchor != nil {
		anchor = *c.Anchor
	}
	made, err := caller.NewLimits(rates, anchor, max(now.Unix(), old.Changed()+1))
	if err == nil && c.Check != nil {
		err = c.Check(made)
	}
	return made, err
}

// Set changes all keys of an id. It returns the changed keys, even with an error. Keys that are revoked meanwhile stay
// revoked. The error wraps ErrNotFound if the id has no key, and ErrChanged if another operator changed a key at the
// same time. If the change is invalid, Set writes nothing.
func (t *Keys) Set(ctx context.Context, now time.Time, id string, c Change) (changed []Key, err error) {
	if c.Tier != nil {
		if err := (Key{ID: "x", Tier: *c.Tier}).validate(); err != nil {
			return nil, err
		}
	}
	all, err := t.all(ctx)
	if err != nil {
		return nil, err
	}
	same, problems := t.of(all, id)
	if len(same)+len(problems) == 0 {
		return nil, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	limits, err := c.limits(same, now)
	if err != nil {
		return nil, err
	}
	for _, k := range same {
		next := c.next(k.Key, limits)
		written, err := t.write(ctx, k, next)
		if err != nil {
			return changed, err
		}
		if written {
			changed = append(changed, next)
		}
	}
	return changed, errors.Join(problems...)
}

// of returns the valid keys of an id. Its error joins the errors of the malformed keys of the id.
func (t *Keys) of(all []located, id string) (same []located, problems []error) {
	for _, k := range all {
		switch {
		case k.ID != id:
			t.warn(k.malformed)
		case k.malformed != nil: // a malformed key identifies no caller, so only the other keys change
			problems = append(problems, k.malformed)
		default:
			same = append(same, k)
		}
	}
	return same, problems
}

// limits returns the limits of all keys after the change. It returns nil if no key changes its limits.
func (c Change) limits(keys []located, now time.Time) (*caller.Limits, error) {
	if c.Limits == nil {
		return nil, nil
	}
	var newest *caller.Limits
	for _, k := range keys {
		if k.Limits.Changed() > newest.Changed() || newest == nil {
			newest = k.Limits
		}
	}
	next, err := c.Limits.Apply(newest, now)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.Limits == nil || k.Limits.String() != next.String() || k.Limits.Changed() != newest.Changed() {
			return next, nil
		}
	}
	return nil, nil
}

// next returns a key after the change. limits is nil if the change keeps the limits.
func (c Change) next(k Key, limits *caller.Limits) Key {
	if c.Tier != nil {
		k.Tier = *c.Tier
	}
	if c.Suspended != nil {
		k.Suspended = *c.Suspended
	}
	if limits != nil {
		k.Limits = limits
	}
	return k
}

// write writes a key in place of k, with the attributes in which they differ. written is false if no attribute
// differs, or if another operator has revoked the key.
func (t *Keys) write(ctx context.Context, k located, next Key) (written bool, err error) {
	item := maps.Clone(k.stored)
	set := func(name, from, to string) {
		if from != to {
			delete(item, name)
			item.SetText(name, to)
		}
	}
	set(tierAttribute, k.Tier, next.Tier)
	set(suspendedAttribute, suspendedText(k.Key), suspendedText(next))
	set(limitsAttribute, textOf(k.Limits), textOf(next.Limits))
	if maps.Equal(item, k.stored) {
		return false, nil
	}
	in := &dynamodb.PutItemInput{TableName: &t.table, Item: item, ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute}}
	condition, values := "attribute_exists(#pk)", records.Item{}
	for _, name := range []string{tierAttribute, suspendedAttribute, limitsAttribute} { // others never change
		in.ExpressionAttributeNames["#"+name] = name
		if was, ok := k.stored[name]; ok {
			condition += " AND #" + name + " = :" + name
			values[":"+name] = was
		} else {
			condition += " AND attribute_not_exists(#" + name + ")"
		}
	}
	in.ConditionExpression = &condition
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	has, written, err := records.PutIf(ctx, t.api, in)
	if err == nil && !written && len(has) > 0 {
		err = fmt.Errorf("%q: %w", k.ID, ErrChanged)
	}
	return written, err
}

// suspendedText returns the text of the attribute suspended; "" if the item does not have it.
func suspendedText(k Key) string {
	if k.Suspended {
		return "true"
	}
	return ""
}

func textOf(l *caller.Limits) string {
	if l == nil {
		return ""
	}
	return l.Text()
}
