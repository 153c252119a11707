package dynamostore

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// These are the attributes of the settlements that have IDs. settledAttribute counts them: an item that
// has IDs has this attribute. settledAttribute followed by a period is the set of the IDs that expire in
// this period. forgottenAttribute is the newest period whose IDs were removed.
const (
	settledAttribute   = "o"
	forgottenAttribute = "p"
)

func settledIn(period int64) string { return settledAttribute + strconv.FormatInt(period, indexBase) }

// applyOnce adds the ID of a settlement to the update, on the condition that the item does not have the
// ID, has room for it, and has not forgotten its period.
func (e *expression) applyOnce(once limiter.Once) {
	id := once.Short()
	ids := e.name(settledIn(once.Period()))
	e.require("(attribute_not_exists(" + ids + ") OR NOT contains(" + ids + ", " + e.value(&types.AttributeValueMemberB{Value: id[:]}) + ") AND size(" + ids + ") < " + e.number(limiter.MaxOnce) + ")")
	e.require(e.absentOr(forgottenAttribute, "<", e.number(once.Period())))
	e.add = append(e.add, ids+" "+e.value(&types.AttributeValueMemberBS{Value: [][]byte{id[:]}}), e.name(settledAttribute)+" "+e.number(1))
}

// checkOnce returns an error if the item shows that a settlement must not be applied.
func (it item) checkOnce(once limiter.Once) error {
	r := reader{it: it}
	if _, ok := it[forgottenAttribute]; ok && r.number(forgottenAttribute) >= once.Period() {
		return cmp.Or(r.err, once.Forgotten())
	}
	ids := it.settled(once.Period())
	id := once.Short()
	switch {
	case slices.ContainsFunc(ids, func(known []byte) bool { return string(known) == string(id[:]) }):
		return limiter.ErrVoucherUsed
	case len(ids) >= limiter.MaxOnce:
		return once.Crowded()
	}
	return r.err
}

func (it item) settled(period int64) [][]byte {
	if ids, ok := it[settledIn(period)].(*types.AttributeValueMemberBS); ok {
		return ids.Value
	}
	return nil
}

// The removal of the IDs of expired periods is a separate write, so it waits until there are many of
// them. forgetAtOnce bounds the periods that one write removes.
const (
	forgetIDs     = 32
	forgetPeriods = 8
	forgetAtOnce  = 40
)

// forget adds the removal of the IDs of expired periods. It sets forgottenAttribute to the newest of
// these periods, not to a period of the clock. Therefore, a wrong clock blocks no later settlements.
func (e *expression) forget(it item, now algo.Instant) {
	if _, ok := it[settledAttribute]; !ok {
		return
	}
	var expired []int64
	ids := 0
	for name := range it {
		if text, ok := strings.CutPrefix(name, settledAttribute); ok && text != "" {
			if period, err := strconv.ParseInt(text, indexBase, 64); err == nil && period <= limiter.Forgettable(now) {
				expired, ids = append(expired, period), ids+len(it.settled(period))
			}
		}
	}
	if ids < forgetIDs && len(expired) < forgetPeriods {
		return
	}
	slices.Sort(expired)
	expired = expired[:min(len(expired), forgetAtOnce)]
	newest := e.number(expired[len(expired)-1])
	// Without this condition, the update could recreate a deleted item.
	e.require("attribute_exists(" + e.name(settledAttribute) + ")")
	e.require(e.absentOr(forgottenAttribute, "<=", newest))
	e.setTo(forgottenAttribute, newest)
	for _, period := range expired {
		e.remove = append(e.remove, e.name(settledIn(period)))
	}
}

// afterReset returns the item that a reset puts in place of it. The new item has only the settled IDs, so
// that none of them is applied again.
func (it item) afterReset() item {
	kept := item{}
	for name, value := range it {
		if name == KeyAttribute || name == TTLAttribute || name == forgottenAttribute || strings.HasPrefix(name, settledAttribute) {
			kept[name] = value
		}
	}
	return kept
}
