package dynamostore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// item is the item of a subject as DynamoDB returned it. It is nil if the table has no item of the
// subject.
type item map[string]types.AttributeValue

// Each attribute of a limit begins with one of these letters.
const (
	fingerprintAttribute = 'f'
	versionAttribute     = 'v'
	tatAttribute         = 't'
	refundsAttribute     = 'g'
	newestAttribute      = 'x'
	countAttribute       = 'c'
	entriesAttribute     = 'l'
	stampAttribute       = 'n'
	skewAttribute        = 'a'
	slotsAttribute       = 'm'
	movedAttribute       = 'd'
)

func attribute(letter rune, id string) string { return string(letter) + id }

// held reads the state of the limit id. own is the charged limit, or nil. If the item has the fingerprint of
// this limit, held uses the limit's machine.
func (item item) held(id string, own *limiter.Limit) (limiter.Held, error) {
	var h limiter.Held
	f, ok := item[attribute(fingerprintAttribute, id)].(*types.AttributeValueMemberS)
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
	r := reader{item: item}
	h.Version = r.number(attribute(versionAttribute, id))
	var err error
	h.State, err = layoutOf(h.Machine).read(item, id)
	if r.err == nil {
		r.err = err
	}
	h.Skew = r.skew(attribute(skewAttribute, id))
	return h, r.err
}

// entries reads every limit of the item, in order of ID.
func (item item) entries() ([]limiter.Entry, error) {
	var entries []limiter.Entry
	for name := range item {
		text, ok := strings.CutPrefix(name, string(fingerprintAttribute))
		if !ok {
			continue
		}
		id, err := limiter.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("%w: attribute %s: %w", limiter.ErrFormat, name, err)
		}
		held, err := item.held(text, nil)
		if err != nil {
			return nil, err
		}
		entries = append(entries, limiter.Entry{ID: id, Held: held})
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// bytes returns the size of the item without the entries of logs and without slots. DynamoDB counts the bytes of names
// and text, and half a byte for each digit.
func (item item) bytes() (n int) {
	for name, value := range item {
		n += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += 1 + (len(v.Value)+1)/2
		}
	}
	return n
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func numbers(ns ...int64) types.AttributeValue {
	l := &types.AttributeValueMemberL{}
	for _, n := range ns {
		l.Value = append(l.Value, number(n))
	}
	return l
}

func list(entries algo.Entries) types.AttributeValue {
	l := &types.AttributeValueMemberL{Value: make([]types.AttributeValue, entries.Len())}
	for i := range l.Value {
		l.Value[i] = number(int64(entries.At(i)))
	}
	return l
}

// set returns the set of entries, which are not empty.
func set(entries algo.Entries) types.AttributeValue {
	s := &types.AttributeValueMemberNS{Value: make([]string, entries.Len())}
	for i := range s.Value {
		s.Value[i] = strconv.FormatInt(int64(entries.At(i)), 10)
	}
	return s
}

// reader reads numbers and keeps the first error.
type reader struct {
	item item
	err  error
}

// number returns a numeric attribute, or 0 if the attribute is absent.
func (r *reader) number(name string) int64 {
	v, ok := r.item[name]
	if !ok {
		return 0
	}
	return r.parse(name, v)
}

func (r *reader) parse(name string, v types.AttributeValue) int64 {
	var n int64
	var err error
	if text, isNumber := v.(*types.AttributeValueMemberN); isNumber {
		n, err = strconv.ParseInt(text.Value, 10, 64)
	} else {
		err = fmt.Errorf("a %T, want a number", v)
	}
	if err != nil {
		r.fail(name, "%w", err)
	}
	return n
}

func (r *reader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: attribute %s: %w", limiter.ErrFormat, name, fmt.Errorf(format, args...))
	}
}

// instants returns a list of instants, or nil if the list is absent.
func (r *reader) instants(name string) []algo.Instant {
	v, ok := r.item[name]
	if !ok {
		return nil
	}
	l, ok := v.(*types.AttributeValueMemberL)
	if !ok {
		r.fail(name, "a %T, want a list", v)
		return nil
	}
	instants := make([]algo.Instant, len(l.Value))
	for i, v := range l.Value {
		instants[i] = algo.Instant(r.parse(name, v))
	}
	return instants
}

// set returns the members of a set in order, or nil if the set is absent.
func (r *reader) set(name string) (instants []algo.Instant) {
	v, ok := r.item[name]
	if !ok {
		return nil
	}
	members, ok := v.(*types.AttributeValueMemberNS)
	if !ok {
		r.fail(name, "a %T, want a set of numbers", v)
		return nil
	}
	for _, text := range members.Value {
		instants = append(instants, algo.Instant(r.parse(name, &types.AttributeValueMemberN{Value: text})))
	}
	slices.Sort(instants)
	return instants
}

// tuple reads a list of numbers into the variables all. If the list is absent, the variables stay unchanged.
func (r *reader) tuple(name string, all ...*int64) {
	v, ok := r.item[name]
	if !ok {
		return
	}
	l, ok := v.(*types.AttributeValueMemberL)
	if !ok || len(l.Value) != len(all) {
		r.fail(name, "want a list of %d numbers", len(all))
		return
	}
	for i, v := range l.Value {
		*all[i] = r.parse(name, v)
	}
}

// skew reads an algo.Skew from an attribute. It returns the zero Skew if the attribute is absent.
func (r *reader) skew(name string) algo.Skew {
	var since, newest int64
	r.tuple(name, &since, &newest)
	return algo.Skew{Since: algo.Instant(since), Newest: newest}
}

// stateOf returns the names of the attributes that hold the state and the Skew of the limit id.
func (item item) stateOf(id string) (names []string) {
	for name := range item {
		if len(name) <= len(id) || !strings.HasPrefix(name[1:], id) {
			continue
		}
		switch rune(name[0]) {
		case tatAttribute, refundsAttribute, newestAttribute, countAttribute, entriesAttribute, stampAttribute, skewAttribute, slotsAttribute,
			movedAttribute:
			names = append(names, name)
		}
	}
	return names
}
