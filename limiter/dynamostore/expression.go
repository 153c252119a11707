package dynamostore

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expression is an update and its condition under construction. Attribute names and values are
// placeholders, which keep the expression short (DynamoDB allows 4 KB) and avoid reserved words.
type expression struct {
	names  map[string]string // placeholder -> attribute
	values map[string]types.AttributeValue
	known  map[string]string // attribute or number -> placeholder
	set    []string
	remove []string
	// Clauses that add members to a set, and delete them. An absent set is empty.
	adds, deletes []string
	when          []string
}

func newExpression() *expression {
	return &expression{names: map[string]string{}, values: map[string]types.AttributeValue{}, known: map[string]string{}}
}

// These strings contain the first placeholders of each kind, so that most expressions need no allocation
// for a placeholder.
const (
	nameTable  = "#0#1#2#3#4#5#6#7#8#9#a#b#c#d#e#f#g#h#i#j#k#l#m#n#o#p#q#r#s#t#u#v#w#x#y#z"
	valueTable = ":0:1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:g:h:i:j:k:l:m:n:o:p:q:r:s:t:u:v:w:x:y:z"
)

func placeholder(table string, n int) string {
	if 2*n < len(table) {
		return table[2*n : 2*n+2]
	}
	return table[:1] + strconv.FormatInt(int64(n), 36)
}

func (e *expression) name(attribute string) string {
	if p, ok := e.known[attribute]; ok {
		return p
	}
	p := placeholder(nameTable, len(e.names))
	e.names[p], e.known[attribute] = attribute, p
	return p
}

// number returns the placeholder of a number. Equal numbers have the same placeholder.
func (e *expression) number(n int64) string {
	text := strconv.FormatInt(n, 10)
	if p, ok := e.known[text]; ok {
		return p
	}
	p := e.value(number(n))
	e.known[text] = p
	return p
}

func (e *expression) text(s string) string {
	return e.value(&types.AttributeValueMemberS{Value: s})
}

func (e *expression) value(v types.AttributeValue) string {
	p := placeholder(valueTable, len(e.values))
	e.values[p] = v
	return p
}

func (e *expression) setTo(attribute, value string) {
	e.set = append(e.set, e.name(attribute)+" = "+value)
}

// setAtFirst adds the clause that gives attribute a value only if it has none.
func (e *expression) setAtFirst(attribute, value string) {
	e.setTo(attribute, "if_not_exists("+e.name(attribute)+", "+value+")")
}

// add adds the clause that adds n to attribute. An absent attribute is 0.
func (e *expression) add(attribute string, n int64) {
	e.setTo(attribute, "if_not_exists("+e.name(attribute)+", "+e.number(0)+") + "+e.number(n))
}

// setAll adds the clauses that set attributes, in the order of their names.
func (e *expression) setAll(attributes map[string]types.AttributeValue) {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		e.setTo(name, e.value(attributes[name]))
	}
}

func (e *expression) require(condition string) { e.when = append(e.when, condition) }

func (e *expression) absent(attribute string) string {
	return "attribute_not_exists(" + e.name(attribute) + ")"
}

// compare returns the condition "attribute op value". The condition is false if the attribute is
// absent.
func (e *expression) compare(attribute, op, value string) string {
	return e.name(attribute) + " " + op + " " + value
}

// requireNumber adds the condition that an attribute is n. An absent attribute is 0.
func (e *expression) requireNumber(attribute string, n int64) {
	if n == 0 {
		e.require(e.absentOr(attribute, "=", e.number(0)))
	} else {
		e.require(e.compare(attribute, "=", e.number(n)))
	}
}

// absentOr returns the condition that attribute is absent or that "attribute op value" is true.
func (e *expression) absentOr(attribute, op, value string) string {
	p := e.name(attribute)
	return "(attribute_not_exists(" + p + ") OR " + p + " " + op + " " + value + ")"
}

// update returns the update expression; nil if the update writes nothing.
func (e *expression) update() *string {
	var parts []string
	for _, section := range []struct {
		word    string
		clauses []string
	}{{"SET ", e.set}, {"REMOVE ", e.remove}, {"ADD ", e.adds}, {"DELETE ", e.deletes}} {
		if len(section.clauses) > 0 {
			parts = append(parts, section.word+strings.Join(section.clauses, ", "))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	s := strings.Join(parts, " ")
	return &s
}

func (e *expression) condition() *string {
	s := strings.Join(e.when, " AND ")
	return &s
}
