package dynamostore_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter/dynamostore"
)

// evaluator is a table of one item. It evaluates the expressions of updates. It supports the part of
// DynamoDB's language that a Store uses, and panics on anything else. An update replaces the item and
// never modifies it, so that an answer can contain the item.
type evaluator struct {
	item map[string]types.AttributeValue
}

// update applies an update if its condition is true, and reports whether it is.
func (v *evaluator) update(in *dynamodb.UpdateItemInput) (applied bool) {
	if !v.holds(*in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues) {
		return false
	}
	p := v.parser(*in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	set, removed := p.clauses()
	next := maps.Clone(in.Key)
	maps.Copy(next, v.item)
	for at, value := range set {
		if at.key != "" {
			elements := maps.Clone(mapOf(next[at.name]))
			elements[at.key] = value
			next[at.name] = &types.AttributeValueMemberM{Value: elements}
			continue
		}
		if at.index < 0 {
			next[at.name] = value
			continue
		}
		head, tail := split(next[at.name], at.index)
		next[at.name] = &types.AttributeValueMemberL{Value: slices.Concat(head, []types.AttributeValue{value}, tail)}
	}
	// From the end, because a removal shifts all later elements.
	slices.SortFunc(removed, func(a, b path) int { return b.index - a.index })
	for _, at := range removed {
		if at.key != "" {
			elements := maps.Clone(mapOf(next[at.name]))
			delete(elements, at.key)
			next[at.name] = &types.AttributeValueMemberM{Value: elements}
			continue
		}
		if at.index < 0 {
			delete(next, at.name)
			continue
		}
		head, tail := split(next[at.name], at.index)
		next[at.name] = &types.AttributeValueMemberL{Value: slices.Concat(head, tail)}
	}
	v.item = next
	return true
}

func (v *evaluator) remove(in *dynamodb.DeleteItemInput) (applied bool) {
	if applied = v.holds(aws.ToString(in.ConditionExpression), in.ExpressionAttributeNames, nil); applied {
		v.item = nil
	}
	return applied
}

type subjectItems struct {
	evaluator
	settlements map[string]*evaluator // by key
}

// of returns the item with a key, and whether it is the item of the subject.
func (s *subjectItems) of(key map[string]types.AttributeValue) (v *evaluator, ofSubject bool) {
	name := key[dynamostore.KeyAttribute].(*types.AttributeValueMemberS).Value
	if !strings.Contains(name, " ") {
		return &s.evaluator, true
	}
	if s.settlements == nil {
		s.settlements = map[string]*evaluator{}
	}
	if s.settlements[name] == nil {
		s.settlements[name] = &evaluator{}
	}
	return s.settlements[name], false
}

func (v *evaluator) holds(condition string, names map[string]string, values map[string]types.AttributeValue) bool {
	if condition == "" {
		return true
	}
	p := v.parser(condition, names, values)
	holds := p.anyOf()
	p.end()
	return holds
}

// split returns the elements before and behind an index. If the list is shorter than the index, DynamoDB
// appends an element that is set, and ignores a removal.
func split(list types.AttributeValue, index int) (head, tail []types.AttributeValue) {
	elements := listOf(list)
	return elements[:min(index, len(elements))], elements[min(index+1, len(elements)):]
}

// parser evaluates one expression from left to right. Every operand has the value from before the
// update.
type parser struct {
	item   map[string]types.AttributeValue
	names  map[string]string
	values map[string]types.AttributeValue
	tokens []string
}

var token = regexp.MustCompile(`[#:]?\w+|<=|>=|\S`)

func (v *evaluator) parser(expression string, names map[string]string, values map[string]types.AttributeValue) *parser {
	return &parser{v.item, names, values, token.FindAllString(expression, -1)}
}

func (p *parser) next() string {
	first := p.tokens[0]
	p.tokens = p.tokens[1:]
	return first
}

func (p *parser) accept(want string) bool {
	if len(p.tokens) == 0 || p.tokens[0] != want {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(want string) {
	if !p.accept(want) {
		panic(fmt.Sprintf("got %q, want %q", p.tokens, want))
	}
}

func (p *parser) end() {
	if len(p.tokens) > 0 {
		panic(fmt.Sprintf("got %q, want the end of the expression", p.tokens))
	}
}

// anyOf evaluates conditions that OR joins. AND binds more tightly.
func (p *parser) anyOf() bool {
	holds := p.allOf()
	for p.accept("OR") {
		other := p.allOf()
		holds = holds || other
	}
	return holds
}

func (p *parser) allOf() bool {
	holds := p.comparison()
	for p.accept("AND") {
		other := p.comparison()
		holds = holds && other
	}
	return holds
}

// comparison evaluates one condition. A comparison with an absent attribute is false.
func (p *parser) comparison() (holds bool) {
	if p.accept("(") {
		holds = p.anyOf()
		p.expect(")")
		return holds
	}
	if function := p.tokens[0]; function == "attribute_not_exists" || function == "attribute_exists" {
		p.next()
		p.expect("(")
		exists := p.value(p.path()) != nil
		p.expect(")")
		return exists == (function == "attribute_exists")
	}
	left, operator, right := p.operand(), p.next(), p.operand()
	if left == nil || right == nil {
		return false
	}
	switch operator {
	case "=":
		return same(left, right)
	case "<":
		return numberOf(left) < numberOf(right)
	case "<=":
		return numberOf(left) <= numberOf(right)
	case ">=":
		return numberOf(left) >= numberOf(right)
	case ">":
		return numberOf(left) > numberOf(right)
	}
	panic("operator " + operator)
}

// clauses evaluates an update expression. It panics if two clauses change the same path.
func (p *parser) clauses() (set map[path]types.AttributeValue, removed []path) {
	set = map[path]types.AttributeValue{}
	for more := p.accept("SET"); more; more = p.accept(",") {
		at := p.path()
		p.expect("=")
		if _, twice := set[at]; twice {
			panic(fmt.Sprintf("%+v is set twice", at))
		}
		set[at] = p.sum()
	}
	for more := p.accept("REMOVE"); more; more = p.accept(",") {
		at := p.path()
		if _, twice := set[at]; twice || slices.Contains(removed, at) {
			panic(fmt.Sprintf("%+v is changed twice", at))
		}
		removed = append(removed, at)
	}
	p.end()
	return set, removed
}

// sum evaluates the right side of a SET clause. An absent operand is an error in DynamoDB.
func (p *parser) sum() types.AttributeValue {
	total := p.operand()
	sign := int64(1)
	switch {
	case p.accept("+"):
	case p.accept("-"):
		sign = -1
	default:
		if total == nil {
			panic("SET to an absent attribute")
		}
		return total
	}
	return numeral(numberOf(total) + sign*numberOf(p.operand()))
}

// operand evaluates a value, an attribute or a function. It returns nil if the attribute is absent.
func (p *parser) operand() types.AttributeValue {
	switch function := p.tokens[0]; function {
	case "if_not_exists", "list_append":
		p.next()
		p.expect("(")
		first := p.operand()
		p.expect(",")
		second := p.operand()
		p.expect(")")
		if function == "list_append" {
			return &types.AttributeValueMemberL{Value: slices.Concat(listOf(first), listOf(second))}
		}
		if first == nil {
			return second
		}
		return first
	case "size":
		p.next()
		p.expect("(")
		value := p.value(p.path())
		p.expect(")")
		switch value := value.(type) {
		case nil:
			return nil
		case *types.AttributeValueMemberM:
			return numeral(int64(len(value.Value)))
		}
		return numeral(int64(len(listOf(value))))
	}
	if strings.HasPrefix(p.tokens[0], ":") {
		return defined(p.values, p.next())
	}
	return p.value(p.path())
}

// path is the place of an attribute, of an element of a list if index is not negative, or of an element
// of a map if key is not empty.
type path struct {
	name  string
	index int
	key   string
}

func (p *parser) path() path {
	at := path{name: defined(p.names, p.next()), index: -1}
	if p.accept(".") {
		at.key = defined(p.names, p.next())
	}
	if p.accept("[") {
		at.index = int(parsed(p.next()))
		p.expect("]")
	}
	return at
}

func (p *parser) value(at path) types.AttributeValue {
	value := p.item[at.name]
	if at.key != "" {
		if m, ok := value.(*types.AttributeValueMemberM); ok && m.Value[at.key] != nil {
			return m.Value[at.key]
		}
		return nil
	}
	if at.index < 0 || value == nil {
		return value
	}
	if elements := listOf(value); at.index < len(elements) {
		return elements[at.index]
	}
	return nil
}

func defined[T any](placeholders map[string]T, name string) T {
	value, ok := placeholders[name]
	if !ok {
		panic("undefined placeholder " + name)
	}
	return value
}

// same reports whether two values are equal. It compares numbers as text, because DynamoDB and the store
// write each number in only one way.
func same(a, b types.AttributeValue) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberL:
		b, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(a.Value, b.Value, same)
	}
	if a, ok := a.(*types.AttributeValueMemberM); ok {
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && maps.EqualFunc(a.Value, b.Value, same)
	}
	panic(fmt.Sprintf("comparison of a %T", a))
}

// mapOf returns the elements of a map. As in DynamoDB, an update of an element of an absent map is invalid.
func mapOf(v types.AttributeValue) map[string]types.AttributeValue {
	return v.(*types.AttributeValueMemberM).Value
}

func listOf(v types.AttributeValue) []types.AttributeValue {
	return v.(*types.AttributeValueMemberL).Value
}

func numberOf(v types.AttributeValue) int64 {
	return parsed(v.(*types.AttributeValueMemberN).Value)
}

func parsed(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func numeral(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
