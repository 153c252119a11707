package memtable

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// path is the place of an attribute, or of an element of a list if index is not negative.
type path struct {
	name  string
	index int
}

// change is one clause of an update.
type change struct {
	path
	value types.AttributeValue // nil: the clause removes what is at path
}

// changed returns a copy of an item with some changes.
func changed(item Item, changes []change) Item {
	item = maps.Clone(item)
	for _, c := range changes {
		switch {
		case c.index >= 0:
			item[c.name] = &types.AttributeValueMemberL{Value: replaced(listOf(item[c.name]), c.index, c.value)}
		case c.value == nil:
			delete(item, c.name)
		default:
			item[c.name] = c.value
		}
	}
	return item
}

// replaced replaces or removes an element of a list. If the list is shorter than the index, DynamoDB appends an
// element that is set, and ignores a removal.
func replaced(elements []types.AttributeValue, index int, value types.AttributeValue) []types.AttributeValue {
	head, tail := elements[:min(index, len(elements))], elements[min(index+1, len(elements)):]
	if value == nil {
		return slices.Concat(head, tail)
	}
	return slices.Concat(head, []types.AttributeValue{value}, tail)
}

// parser evaluates an expression from left to right. Every operand has the value from before the update.
type parser struct {
	item   Item
	names  map[string]string
	values map[string]types.AttributeValue
	token  string // the next token; "" at the end
	rest   string // the text after token
}

func (p *parser) start(expression string) {
	p.rest = expression
	p.next()
}

// next returns the next token: a word, a placeholder, a number or an operator.
func (p *parser) next() (token string) {
	token, p.rest = p.token, strings.TrimLeft(p.rest, " ")
	n := strings.IndexAny(p.rest, " ()[],=<>+-")
	switch {
	case n < 0:
		n = len(p.rest)
	case strings.HasPrefix(p.rest, "<="), strings.HasPrefix(p.rest, ">="):
		n = 2
	case n == 0:
		n = 1
	}
	p.token, p.rest = p.rest[:n], p.rest[n:]
	return token
}

func (p *parser) accept(want string) bool {
	if p.token != want {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(want string) {
	if !p.accept(want) {
		panic(fmt.Sprintf("got %q before %q, want %q", p.token, p.rest, want))
	}
}

func (p *parser) holds(condition string) bool {
	p.start(condition)
	holds := p.anyOf()
	p.expect("")
	return holds
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
	switch function := p.token; function {
	case "(":
		p.next()
		holds = p.anyOf()
		p.expect(")")
		return holds
	case "NOT":
		p.next()
		return !p.comparison()
	case "contains":
		p.next()
		p.expect("(")
		members := membersOf(p.operand())
		p.expect(",")
		holds = slices.Contains(members, p.operand().(*types.AttributeValueMemberN).Value)
		p.expect(")")
		return holds
	case "attribute_not_exists", "attribute_exists":
		return (p.argument() != nil) == (function == "attribute_exists")
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

// changes evaluates an update expression. It panics if two clauses change the same path.
func (p *parser) changes(update string) (all []change) {
	p.start(update)
	add := func(c change) {
		if slices.ContainsFunc(all, func(before change) bool { return before.path == c.path }) {
			panic(fmt.Sprintf("%+v is changed twice", c.path))
		}
		all = append(all, c)
	}
	for more := p.accept("SET"); more; more = p.accept(",") {
		c := change{path: p.path()}
		p.expect("=")
		c.value = p.sum()
		add(c)
	}
	set := len(all)
	for more := p.accept("REMOVE"); more; more = p.accept(",") {
		add(change{path: p.path()})
	}
	for more := p.accept("ADD"); more; more = p.accept(",") {
		at := p.path()
		add(change{at, setOf(slices.Concat(membersOf(p.value(at)), membersOf(p.operand())))})
	}
	for more := p.accept("DELETE"); more; more = p.accept(",") {
		at := p.path()
		deleted := membersOf(p.operand())
		add(change{at, setOf(slices.DeleteFunc(membersOf(p.value(at)), func(member string) bool { return slices.Contains(deleted, member) }))})
	}
	p.expect("")
	// From the end, because a removal shifts all later elements.
	slices.SortFunc(all[set:], func(a, b change) int { return b.index - a.index })
	return all
}

// setOf returns the set of members, which can contain duplicates; nil if there are none.
func setOf(members []string) types.AttributeValue {
	slices.Sort(members)
	if len(members) == 0 {
		return nil
	}
	return &types.AttributeValueMemberNS{Value: slices.Compact(members)}
}

// membersOf returns a copy of the members of a set; none for an absent set.
func membersOf(v types.AttributeValue) []string {
	if v == nil {
		return nil
	}
	return slices.Clone(v.(*types.AttributeValueMemberNS).Value)
}

// sum evaluates the right side of a SET clause. An absent operand is an error in DynamoDB.
func (p *parser) sum() types.AttributeValue {
	total := p.operand()
	sign := int64(1)
	switch {
	case p.accept("+"):
	case p.accept("-"):
		sign = -1
	case total == nil:
		panic("SET to an absent attribute")
	default:
		return total
	}
	return number(numberOf(total) + sign*numberOf(p.operand()))
}

// operand evaluates a value, an attribute or a function. It returns nil if the attribute is absent.
func (p *parser) operand() types.AttributeValue {
	switch function := p.token; function {
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
		switch value := p.argument().(type) {
		case nil:
			return nil
		case *types.AttributeValueMemberNS:
			return number(int64(len(value.Value)))
		default:
			return number(int64(len(listOf(value))))
		}
	}
	if strings.HasPrefix(p.token, ":") {
		return defined(p.values, p.next())
	}
	return p.value(p.path())
}

// argument returns the value of the path that is the only argument of a function.
func (p *parser) argument() types.AttributeValue {
	p.next()
	p.expect("(")
	value := p.value(p.path())
	p.expect(")")
	return value
}

func (p *parser) path() path {
	at := path{name: defined(p.names, p.next()), index: -1}
	if p.accept("[") {
		at.index = int(parsed(p.next()))
		p.expect("]")
	}
	return at
}

func (p *parser) value(at path) types.AttributeValue {
	value := p.item[at.name]
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
	case *types.AttributeValueMemberNS:
		b, ok := b.(*types.AttributeValueMemberNS)
		return ok && slices.Equal(slices.Sorted(slices.Values(a.Value)), slices.Sorted(slices.Values(b.Value)))
	}
	panic(fmt.Sprintf("comparison of a %T", a))
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

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
