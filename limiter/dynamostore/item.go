package dynamostore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// format is the version of the item's layout. It is part of the key.
const format = 1

// item is what DynamoDB returned of a subject; nil if there is none.
type item map[string]types.AttributeValue

// The attributes of one limit, by the first letter of their names.
const (
	fingerprintAttribute = 'f'
	versionAttribute     = 'v'
	tatAttribute         = 't'
	refundsAttribute     = 'g'
	newestAttribute      = 'x'
	countAttribute       = 'c'
)

// attribute returns the name of an attribute of the limit id.
func attribute(letter rune, id string) string { return string(letter) + id }

// count returns the name of the attribute that counts a window of the limit id.
func count(id string, window int64) string {
	return string(countAttribute) + id + "_" + strconv.FormatInt(window, 10)
}

// held reads what the item holds of the limit id. own is the limit that asks, nil if
// none does: its machine stands for an equal fingerprint.
func (it item) held(id string, own *limiter.Limit) (limiter.Held, error) {
	var h limiter.Held
	f, ok := it[attribute(fingerprintAttribute, id)].(*types.AttributeValueMemberS)
	if !ok {
		return h, nil
	}
	if own != nil && f.Value == own.Fingerprint() {
		h.Machine = own.Machine()
	} else {
		machine, err := algo.Parse(f.Value)
		if err != nil {
			return h, fmt.Errorf("%w: %w", limiter.ErrFormat, err)
		}
		h.Machine = machine
	}
	r := reader{it: it}
	h.Version = r.number(attribute(versionAttribute, id))
	switch h.Machine.(type) {
	case *algo.Bucket:
		h.State.TAT = algo.Instant(r.number(attribute(tatAttribute, id)))
		h.State.Refunds = r.number(attribute(refundsAttribute, id))
	case *algo.Window:
		h.State.Window = r.number(attribute(newestAttribute, id))
		h.State.Count = r.number(count(id, h.State.Window))
		h.State.Previous = r.number(count(id, h.State.Window-1))
	}
	return h, r.err
}

// reader reads numbers and keeps the first error.
type reader struct {
	it  item
	err error
}

// number returns a numeric attribute, 0 if it is absent.
func (r *reader) number(name string) int64 {
	v, ok := r.it[name]
	if !ok {
		return 0
	}
	var n int64
	var err error
	if text, isNumber := v.(*types.AttributeValueMemberN); isNumber {
		n, err = strconv.ParseInt(text.Value, 10, 64)
	} else {
		err = fmt.Errorf("a %T, want a number", v)
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: attribute %s: %w", limiter.ErrFormat, name, err)
	}
	return n
}

// stateOf returns the attributes of the limit id that are its state.
func (it item) stateOf(id string) (names []string) {
	for name := range it {
		if len(name) <= len(id) || !strings.HasPrefix(name[1:], id) {
			continue
		}
		switch rune(name[0]) {
		case tatAttribute, refundsAttribute, newestAttribute, countAttribute:
			names = append(names, name)
		}
	}
	return names
}
