package rules

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-limits/weir/limiter/rules/document"
)

// These are the header fields of the Model Context Protocol (MCP) that repeat the method and the name in the body.
const (
	CallMethodField = "Mcp-Method"
	CallNameField   = "Mcp-Name"
)

// toolCall is the method of MCP whose name is a tool.
const toolCall = "tools/call"

// Mistake is the reason why a request must be refused with 400. Its texts contain nothing from the request.
type Mistake struct{ Code, Message string }

// MalformedField is the Code of a Mistake in a header field.
const MalformedField = "malformed_field"

var (
	malformedField = &Mistake{MalformedField, "A header field by which this API limits requests is repeated or malformed."}
	unlistedTool   = &Mistake{"unlisted_tool", "No limit of this API is for this tool, or the fields Mcp-Method and Mcp-Name are missing."}
)

// matches reports whether the value of a header field is one of the wanted ones, exact or a beginning and *.
func matches(values []string, value string) bool {
	return slices.ContainsFunc(values, func(want string) bool {
		beginning, open := strings.CutSuffix(want, "*")
		return value == want || open && strings.HasPrefix(value, beginning)
	})
}

// exampleHeader returns a header with the fields of the rule; nil if it has none.
func (r *rule) exampleHeader() http.Header {
	if len(r.Headers) == 0 {
		return nil
	}
	h := http.Header{}
	for _, f := range r.Headers {
		h.Set(f.Name, strings.TrimSuffix(f.Values[0], "*"))
	}
	return h
}

// isCall reports whether a field repeats a part of the body.
func isCall(name string) bool { return name == CallMethodField || name == CallNameField }

// encoding begins an encoded value of a field of MCP, and encodingEnd ends it.
const encoding, encodingEnd = "=?base64?", "?="

// EncodeField returns a value in the form in which it can be a field of MCP.
func EncodeField(value string) string {
	return encoding + base64.StdEncoding.EncodeToString([]byte(value)) + encodingEnd
}

// DecodeField returns the value of a field of MCP; "" if its encoding has a mistake.
func DecodeField(value string) string {
	decoded, ok := decodeField(value)
	if !ok {
		return ""
	}
	return decoded
}

// decodeField returns the value of a field of MCP. The marks count in every case, because a server could accept them so.
func decodeField(value string) (decoded string, ok bool) {
	value = strings.Trim(value, " \t")
	if len(value) < len(encoding)+len(encodingEnd) || !strings.EqualFold(value[:len(encoding)], encoding) ||
		!strings.HasSuffix(value, encodingEnd) {
		return value, true
	}
	text, err := base64.StdEncoding.Strict().DecodeString(value[len(encoding) : len(value)-len(encodingEnd)])
	return string(text), err == nil && utf8.Valid(text)
}

// value returns the value of a header field by which a rule selects requests. sent is false without the field, and ok is
// false if it is repeated or malformed.
func (q *Request) value(name string) (value string, sent, ok bool) {
	values := q.Header[name]
	if len(values) != 1 {
		return "", false, len(values) == 0
	}
	value, ok = values[0], true
	if strings.HasPrefix(name, "Mcp-") {
		value, ok = decodeField(value)
	}
	unprintable := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == utf8.RuneError }
	return value, true, ok && !strings.ContainsFunc(values[0], unprintable)
}

// selects reports whether the fields of a request are those of the rule. ok is false if one of them is repeated or malformed.
func (r *rule) selects(q *Request) (selected, ok bool) {
	selected, ok = true, true
	for i := range r.Headers {
		value, sent, valid := q.value(r.Headers[i].Name)
		ok = ok && valid
		selected = selected && sent && valid && matches(r.Headers[i].Values, value)
	}
	return selected, ok
}

// byCall reports whether the rule selects requests by a field that repeats a part of the body.
func (r *rule) byCall() bool {
	return slices.ContainsFunc(r.Headers, func(f document.Field) bool { return isCall(f.Name) })
}

// isCall reports whether the body decides whether the rule applies, or in which count.
func (c *compiler) isCall(r *rule) bool {
	if r.byCall() {
		return true
	}
	for _, l := range r.Limits {
		for _, word := range l.Per {
			if name, ok := strings.CutPrefix(word, document.PerHeader); ok && isCall(http.CanonicalHeaderKey(name)) {
				return true
			}
		}
	}
	return false
}

// Calls reports whether a rule depends on the body of an MCP request; see Selection.Call.
func (r *Rules) Calls() bool { return r.calls }

// readingSet is a set of indexes of readings of a path. Those of usual paths need no memory.
type readingSet struct {
	first uint64 // a bit for each of the first 64
	more  map[int]bool
}

func (s *readingSet) add(i int) {
	switch {
	case i < 64:
		s.first |= 1 << i
	case s.more == nil:
		s.more = map[int]bool{i: true}
	default:
		s.more[i] = true
	}
}

// includes reports whether all indexes in other are in s.
func (s *readingSet) includes(other readingSet) bool {
	for i := range other.more {
		if !s.more[i] {
			return false
		}
	}
	return other.first&^s.first == 0
}

// choice is what the rules at an endpoint do with the header fields of a request.
type choice struct {
	call      bool // a rule depends on the body
	enforced  bool // such a rule is not in shadow
	applies   bool // a rule applies
	malformed bool
	tools     readingSet // an enforced rule selects requests by the fields of MCP
	counted   readingSet // such a rule applies, or an enforced rule without headers charges the request
}

// add adds a rule whose endpoint and method match the request. It reports whether the rule applies.
func (c *choice) add(r *rule, q *Request, paths []reading) bool {
	c.call, c.enforced = c.call || r.call, c.enforced || r.call && !r.Shadow
	if len(r.Headers) == 0 {
		c.applies = true
		return true
	}
	selected, ok := r.selects(q)
	c.applies = c.applies || selected
	c.malformed = c.malformed || !ok && !r.Shadow
	if r.Shadow || !r.byCall() {
		return selected
	}
	for i := range paths {
		if (len(paths) == 1 || r.pattern.matches(paths[i])) && r.excepts(paths[i:i+1]) == "" {
			c.tools.add(i)
			if selected {
				c.counted.add(i)
			}
		}
	}
	return selected
}

// charged adds that a rule charges the request for a reading of the path. A rule with headers is no substitute for one that lists
// the tool, because the client writes its fields.
func (c *choice) charged(r *rule, paths []reading, i int) {
	if !r.Shadow && len(r.Headers) == 0 && r.excepts(paths[i:i+1]) == "" {
		c.counted.add(i)
	}
}

// mistake returns why the request must be refused; nil if it need not. A call of a tool must be counted in every reading of the path:
// if no rule is for it, silence would be a way around the others. So must a request of a client that does not say what it calls, unless
// MCP has its method without a call (the stream of a session, and its end).
func (c *choice) mistake(q *Request) *Mistake {
	switch {
	case c.malformed:
		return malformedField
	case c.counted.includes(c.tools) || q.Caller.Rejected:
		return nil
	}
	method, sent, _ := q.value(CallMethodField)
	silent := q.Method == http.MethodGet || q.Method == http.MethodHead || q.Method == http.MethodDelete
	if method == toolCall || !sent && !silent {
		return unlistedTool
	}
	return nil
}
