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

// ErrChanged means that another operator changed the limits of a key at the same time, or changed the key before each of
// several attempts.
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
// revoked, and concurrent changes of other attributes stay. The error wraps ErrNotFound if the id has no key, and ErrChanged
// if another operator changed the limits too. If the change is invalid, Set writes nothing.
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
		next, written, err := t.change(ctx, k, c, limits)
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

// attempts is how often Set writes a key that other operators change at the same time.
const attempts = 5

// change writes a key after the change. limits is nil if the change keeps the limits. written is false if no attribute
// differs, or if another operator has revoked the key.
func (t *Keys) change(ctx context.Context, k located, c Change, limits *caller.Limits) (next Key, written bool, err error) {
	for range attempts {
		next = c.next(k.Key, limits)
		has, written, err := t.write(ctx, k, next)
		if err != nil || written || len(has) == 0 {
			return next, written, err
		}
		if limits != nil && has.Text(limitsAttribute) != k.stored.Text(limitsAttribute) {
			break // limits follow from those that the operator has seen
		}
		k.stored = has
		k.Key, err = parseKey(has)
		if err != nil {
			return next, false, err
		}
	}
	return next, false, fmt.Errorf("%q: %w", k.ID, ErrChanged)
}

// write writes a key in place of k, with the attributes in which they differ. If another operator has changed the key, it
// writes nothing and returns the item. has is nil if no attribute differs, or if another operator has revoked the key.
func (t *Keys) write(ctx context.Context, k located, next Key) (has records.Item, written bool, err error) {
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
		return nil, false, nil
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
	return records.PutIf(ctx, t.api, in)
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
