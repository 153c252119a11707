package document

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// object reads the members of a JSON object and reports their mistakes.
type object struct {
	node   *node
	report *report
	known  []string // names of the members that the reader supports
}

func (n *node) object(r *report) *object { return n.objectLike(r, "") }

// objectLike is like object, with an example for the error message. "" means no example.
func (n *node) objectLike(r *report, example string) *object {
	if n.kind != isObject {
		if example != "" {
			example = ", such as " + example
		}
		r.at(n, "got %s, want an object%s", n, example)
	}
	return &object{node: n, report: r, known: make([]string, 0, 16)}
}

// values returns the elements of a list. If n is no list of least to most elements, values reports a mistake and returns
// nil.
func (d *Document) values(n *node, least, most int, noun, example string) []*node {
	got := n.String()
	switch {
	case n.kind != isList:
	case len(n.children) < least:
		got = "an empty list"
	case len(n.children) > most:
		got = strconv.Itoa(len(n.children)) + " " + noun
	default:
		return n.children
	}
	d.report.at(n, "got %s, want a list of %d to %d %s, such as %s", got, least, most, noun, example)
	return nil
}

// member returns the value of a key. It returns nil if the object does not have the key.
func (o *object) member(key string) *node {
	o.known = append(o.known, key)
	return o.get(key)
}

func (o *object) has(key string) bool { return o.get(key) != nil }

func (o *object) get(key string) *node {
	members := o.node.members()
	if i := slices.IndexFunc(members, func(m *node) bool { return m.key == key }); i >= 0 {
		return members[i]
	}
	return nil
}

// required returns the value of a key like member. If the key is missing, it reports a mistake.
func (o *object) required(key string) *node {
	n := o.member(key)
	if n == nil && o.node.kind == isObject {
		o.report.add(Join(o.node.path(), key), "required")
	}
	return n
}

// removed are fields of earlier versions, with what to do instead.
var removed = map[string]string{
	"cost_field": `a back end reports costs in Weir-Cost, or "from" reads them from its answer`,
	"edge":       "weir block and the stack infra/edge refuse callers at a distribution, and the setting waf floods",
}

// done reports every member whose name the reader does not support.
func (o *object) done() {
	for _, m := range o.node.members() {
		if o.report.more {
			return
		}
		if instead := removed[m.key]; instead != "" {
			o.report.at(m, "unknown field: %s", instead)
		} else if !slices.Contains(o.known, m.key) {
			o.report.at(m, "unknown field%s; known fields: %s", DidYouMean(m.key, o.known), strings.Join(o.known, ", "))
		}
	}
}

// text returns a string. ok is false if n is nil or not a string.
func (o *object) text(n *node) (s string, ok bool) {
	if n == nil {
		return "", false
	}
	s, ok = n.value.(string)
	if !ok {
		o.report.at(n, "got %s, want a string", n)
	}
	return s, ok
}

// truth returns the boolean of a key. It returns false if the value is missing or not a boolean.
func (o *object) truth(key string) bool {
	n := o.member(key)
	if n == nil {
		return false
	}
	b, ok := n.value.(bool)
	if !ok {
		o.report.add(n.path(), "got %s, want true or false", n)
	}
	return b
}

// name returns the name of a limit or an exemption. It returns "" if n is not a string.
func (o *object) name(n *node) string {
	name, ok := o.text(n)
	if ok && !isName(name) {
		o.report.at(n, "got %s, want 1 to 32 of a-z, 0-9, _ and -", n)
	}
	return name
}

// choice returns the string of a key, and reports a mistake if it is not one of the allowed strings. It returns
// "" if the value is missing or not a string.
func (o *object) choice(key string, allowed []string) string {
	return o.choose(o.member(key), allowed, nil)
}

// choose returns the string of n like choice. hints maps a wrong string to the end of the message about
// it.
func (o *object) choose(n *node, allowed []string, hints map[string]string) string {
	s, ok := o.text(n)
	if ok && !slices.Contains(allowed, s) {
		o.report.at(n, "got %s, want %s%s%s", n, AnyOf(allowed), DidYouMean(s, allowed), hints[s])
	}
	return s
}

// AnyOf joins words with commas and "or": "a, b or c".
func AnyOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// maxCompared bounds the number of words that DidYouMean compares with a text.
const maxCompared = 200

// DidYouMean returns ` (did you mean "word"?)` with the closest of words. It returns "" if no word is
// close. To bound its work, it compares only the first maxCompared words of about the same length.
func DidYouMean(got string, words []string) string {
	if len(got) > maxShown {
		return ""
	}
	best, distance := "", min(len(got)-1, max(2, len(got)/3))+1
	compared := 0
	for _, word := range words {
		if max(len(word)-len(got), len(got)-len(word)) >= distance {
			continue // the edit distance is at least the difference in length
		}
		compared++
		if compared > maxCompared {
			break
		}
		if d := editDistance(strings.ToLower(got), strings.ToLower(word)); d < distance {
			best, distance = word, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + strconv.Quote(best) + "?)"
}

// editDistance returns how many bytes an edit from a to b inserts, deletes or replaces.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the edit distance from the first i bytes of a to the first j bytes of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// whole returns the integer of a node, which must be from 1 to most. ok is false if n has no such integer.
func (o *object) whole(n *node, most int64) (i int64, ok bool) {
	if n == nil {
		return 0, false
	}
	none := false
	if number, isNumber := n.value.(json.Number); isNumber {
		i, ok := integer(number.String())
		if ok && i >= 1 && i <= most {
			return i, true
		}
		none = ok && i == 0 && n.key == "requests"
	}
	hint := ""
	if text, isText := n.value.(string); isText && isOf(text, digits, 18) {
		hint = ", without quotes"
	} else if none {
		hint = "; weir block refuses a caller"
	}
	o.report.at(n, "got %s, want a whole number from 1 to %d%s", n, most, hint)
	return 0, false
}

// integer returns the value of a JSON number that is whole and fits an int64. As in JSON Schema, 100,
// 100.0 and 1e2 are the same number.
func integer(number string) (int64, bool) {
	const most = 18 // an int64 has at most 19 digits, so a number with more zeros does not fit
	mantissa, exponent := number, "0"
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		return 0, false
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	zeros := len(whole) + shift - len(digits) // the number of zeros after digits
	if zeros < 0 || zeros > most {
		return 0, false
	}
	i, err := strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	return i, err == nil
}
