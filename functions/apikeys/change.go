package apikeys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

// ErrChanged means that another operator changed the limits of a key at the same time.
var ErrChanged = errors.New("another operator changed the limits at the same time; run the command again")

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

// Set changes all keys of an id. It writes only the attributes that change. It returns the changed keys,
// even with an error. Keys that are revoked meanwhile stay revoked. The error wraps ErrNotFound if the id
// has no key, and ErrChanged if another operator changed the limits. If the change is invalid, Set writes
// nothing.
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

// write writes the attributes in which the key next differs from k. written is false if no attribute
// differs, or if another operator has revoked the key.
func (t *Keys) write(ctx context.Context, k located, next Key) (written bool, err error) {
	in := t.update(k, next)
	if in.UpdateExpression == nil {
		return false, nil
	}
	_, err = t.api.UpdateItem(ctx, in)
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		if len(failed.Item) == 0 {
			return false, nil
		}
		return false, fmt.Errorf("%q: %w", k.ID, ErrChanged)
	}
	if err != nil {
		return false, fmt.Errorf("records table: %w", err)
	}
	return true, nil
}

// update returns the write of the attributes in which the key next differs from k. It has no
// UpdateExpression if no attribute differs.
func (t *Keys) update(k located, next Key) *dynamodb.UpdateItemInput {
	values := records.Item{}
	in := &dynamodb.UpdateItemInput{
		TableName: &t.table, Key: records.NewItem(k.item), ConditionExpression: aws.String("attribute_exists(#pk)"),
		ExpressionAttributeNames:            map[string]string{"#pk": contract.KeyAttribute},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	var set, remove, actions []string
	change := func(name, from, to string) {
		if from == to {
			return
		}
		in.ExpressionAttributeNames["#"+name] = name
		if to == "" {
			remove = append(remove, "#"+name)
			return
		}
		set = append(set, "#"+name+" = :"+name)
		values.SetText(":"+name, to)
	}
	change(tierAttribute, k.Tier, next.Tier)
	change(suspendedAttribute, suspendedText(k.Key), suspendedText(next))
	change(limitsAttribute, textOf(k.Limits), textOf(next.Limits))
	if k.Limits != next.Limits {
		condition := " AND attribute_not_exists(#limits)"
		if k.Limits != nil {
			condition = " AND #limits = :was"
			values[":was"] = k.stored
		}
		*in.ConditionExpression += condition
	}
	if len(set) > 0 {
		actions = append(actions, "SET "+strings.Join(set, ", "))
	}
	if len(remove) > 0 {
		actions = append(actions, "REMOVE "+strings.Join(remove, ", "))
	}
	if len(actions) > 0 {
		in.UpdateExpression = aws.String(strings.Join(actions, " "))
	}
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	return in
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
