package lambdahttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxAnswer is the largest answer that Lambda accepts, as measured. Lambda's quota page says 6 MB.
const MaxAnswer = 6<<20 + 100

// These are sizes up to which a host accepts every answer. AWS documents 1 MB and 32 KB of header for a load
// balancer, and 10,240 bytes of header for API Gateway. The host adds fields of its own to the header.
const (
	maxLoadBalancer       = 1_000_000
	maxLoadBalancerHeader = 32<<10 - hostFields
	maxHeader             = 10_240 - hostFields
	hostFields            = 512
)

// Admitted is an admitted request, which a function in another process answers.
type Admitted struct {
	// Event is the event for the function. Its bytes are those of the event from Lambda, unless the client has
	// sent a field that only Weir may set, or the request is over a limit in mode mark.
	Event []byte

	w       http.ResponseWriter
	counted bool // w reads the status, the cost fields and the length of the answer
	event   *proxyEvent
}

// Answered converts payload, the answer of the function, into the answer for the host, in parts. It adds
// those fields of the decision that the function has not set, and removes the cost fields. All other
// bytes of payload stay. A payload that is no answer to a host stays unchanged.
func (a *Admitted) Answered(payload []byte) [][]byte {
	full, err := parseAnswer(payload, 0)
	if err != nil {
		return a.other(payload)
	}
	return a.amended(full)
}

// Prelude is Answered for the metadata of a streamed answer. [Admitted.Streamed] gets the body.
func (a *Admitted) Prelude(metadata []byte) [][]byte {
	full, err := parseAnswer(metadata, http.StatusOK)
	if err != nil {
		a.w.WriteHeader(http.StatusBadGateway)
		return [][]byte{metadata}
	}
	return a.amended(full)
}

// Streamed counts bytes of the body of a streamed answer.
func (a *Admitted) Streamed(b []byte) {
	if a.counted {
		_, _ = a.w.Write(b)
	}
}

// amended returns an answer with the fields, or without them if the host could reject the answer with them.
func (a *Admitted) amended(f *fullAnswer) [][]byte {
	fields := spelled(a.w.Header())
	removed := a.count(f)
	most, mostHeader := MaxAnswer, maxHeader
	if a.event.host() == loadBalancer {
		most, mostHeader = maxLoadBalancer, maxLoadBalancerHeader
	}
	if f.header(fields) <= mostHeader {
		if amended := f.amended(a.list(f), fields, removed); size(amended) <= most {
			return amended
		}
	}
	return f.amended(false, nil, removed)
}

// other returns the answer for a payload without a status. For payload 2.0, such a payload is the body of a
// 200. For other hosts, it is an error.
func (a *Admitted) other(payload []byte) [][]byte {
	unchanged, fields := [][]byte{payload}, spelled(a.w.Header())
	body := bytes.TrimSpace(payload)
	if a.event.host() != httpAPI || hasStatus(body) {
		a.w.WriteHeader(http.StatusBadGateway)
		return unchanged
	}
	a.w.WriteHeader(http.StatusOK)
	if a.counted {
		a.Streamed(unquoted(body))
	}
	if len(fields) == 0 || !json.Valid(body) || string(body) == "null" {
		return unchanged
	}
	if full := inferred(body, fields); len(full) <= MaxAnswer {
		return [][]byte{full}
	}
	return unchanged
}

// hasStatus reports whether an answer has a status. If it has one and parseAnswer rejects the answer, the
// host rejects it too.
func hasStatus(payload []byte) bool {
	members, _ := membersOf(payload)
	return last(members, "statusCode") != nil
}

// unquoted returns the value of a JSON string. It returns other text unchanged.
func unquoted(text []byte) []byte {
	if value, err := jsontext.AppendUnquote(nil, text); err == nil {
		return value
	}
	return text
}

// inferred returns the full form of an answer that is only a body, as a host with payload 2.0 infers it.
func inferred(body []byte, fields http.Header) []byte {
	b := append(make([]byte, 0, len(body)+1024), `{"statusCode":200,"headers":{"content-type":"application/json"`...)
	b = append(appendFields(append(b, ','), fields, nil, false), `},"body":`...)
	if body[0] == '"' {
		b = append(b, body...)
	} else {
		b = appendString(b, string(body))
	}
	return append(b, '}')
}

// list reports whether the host reads lists of values from an answer. A load balancer reads either lists or
// single values, and its events have the same form.
func (a *Admitted) list(f *fullAnswer) bool {
	switch a.event.host() {
	case loadBalancer:
		return len(a.event.MultiHeaders) > 0
	case httpAPI:
		return false
	case restAPI:
	}
	return f.headers.null() && !f.lists.null()
}

// count passes the status, the header and the length of the answer to the writer of the request. It returns
// the names of the cost fields, which the writer removes from the header.
func (a *Admitted) count(f *fullAnswer) (removed map[string]bool) {
	if !a.counted {
		return nil
	}
	h := a.w.Header()
	for _, m := range f.fields {
		h[http.CanonicalHeaderKey(m.name)] = append([]string(nil), values(m.value)...)
	}
	a.w.WriteHeader(f.status)
	for _, m := range f.fields {
		if _, kept := h[http.CanonicalHeaderKey(m.name)]; !kept {
			if removed == nil {
				removed = map[string]bool{}
			}
			removed[strings.ToLower(m.name)] = true
		}
	}
	a.Streamed(f.content())
	return removed
}

// values returns the values of a header field: text, or a list of texts.
func values(raw []byte) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	return []string{string(raw)} // a number
}

// fullAnswer is an answer with a status. Its parts refer to text.
type fullAnswer struct {
	text           []byte
	status         int
	headers, lists *member  // the members headers and multiValueHeaders; nil if there are none
	fields         []member // header fields in headers and lists
	cookies        *member
	body           *member
	base64         bool
}

// errNoAnswer means that a text is not an answer with a status and headers.
var errNoAnswer = errors.New("answer: want an object with a status from 200 to 599, and headers that are objects")

// parseAnswer parses an answer. An answer without a status gets the given status. If the given status is 0,
// such an answer is an error.
func parseAnswer(text []byte, status int) (*fullAnswer, error) {
	members, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	f := &fullAnswer{
		text: text, status: status, body: last(members, "body"),
		headers: last(members, "headers"), lists: last(members, "multiValueHeaders"), cookies: last(members, "cookies"),
	}
	if given := last(members, "statusCode"); given != nil {
		f.status, _ = strconv.Atoi(strings.Trim(string(given.value), `"`))
	}
	if f.status < http.StatusOK || f.status > 599 {
		return nil, errNoAnswer
	}
	for _, m := range []*member{f.headers, f.lists} {
		if m.null() {
			continue
		}
		fields, err := membersOf(m.value)
		if err != nil {
			return nil, errNoAnswer
		}
		f.fields = append(f.fields, fields...)
	}
	encoded := last(members, "isBase64Encoded")
	f.base64 = encoded != nil && string(encoded.value) == "true"
	return f, nil
}

// header returns an upper bound of the size of the header with added fields.
func (f *fullAnswer) header(added http.Header) (n int) {
	for i := range f.fields {
		n += lines(f.fields[i].name, f.fields[i].value)
	}
	if f.cookies != nil {
		n += lines("Set-Cookie", f.cookies.value)
	}
	for name, values := range added {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}

// lines returns an upper bound of the size of the header lines of a field. raw is a JSON text, or a list.
func lines(name string, raw []byte) int {
	count := 1
	if raw[0] == '[' {
		count += bytes.Count(raw, []byte(","))
	}
	return count*(len(name)+len(": \r\n")) + len(raw)
}

// content returns the body as the client gets it.
func (f *fullAnswer) content() []byte {
	if f.body.null() {
		return nil
	}
	text := unquoted(f.body.value)
	if f.base64 {
		if n, err := base64.StdEncoding.Decode(text, text); err == nil {
			return text[:n]
		}
	}
	return text
}

// amended returns the text with added fields and without the fields whose names in lower case are in removed.
// If list is true, the added fields are in multiValueHeaders.
func (f *fullAnswer) amended(list bool, added http.Header, removed map[string]bool) [][]byte {
	name, into := "headers", f.headers
	if list {
		name, into = "multiValueHeaders", f.lists
	}
	fields := appendFields(nil, added, f.fields, list)
	var parts [][]byte
	at := 0
	if into == nil && len(fields) > 0 { // insert a new member before the first one
		brace := bytes.IndexByte(f.text, '{') + 1
		next := []byte(",")
		if bytes.TrimLeft(f.text[brace:], space)[0] == '}' {
			next = nil
		}
		parts, at = append(parts, f.text[:brace], []byte(`"`+name+`":{`), fields, []byte("}"), next), brace
	}
	for _, m := range ordered(f.headers, f.lists) {
		var insert []byte
		if m == into {
			insert = fields
		}
		if len(insert) > 0 || len(removed) > 0 && !m.null() {
			parts, at = append(parts, f.text[at:m.start], edited(m, insert, removed)), m.end
		}
	}
	return append(parts, f.text[at:])
}

// space is the white space of JSON.
const space = " \t\r\n"

// ordered returns the members that are not nil, in the order of the text.
func ordered(a, b *member) []*member {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		return []*member{b}
	case b == nil:
		return []*member{a}
	case b.start < a.start:
		return []*member{b, a}
	}
	return []*member{a, b}
}

// edited returns the value of the member m, an object of header fields. It appends the fields in added, and leaves
// out those in removed.
func edited(m *member, added []byte, removed map[string]bool) []byte {
	b := append(make([]byte, 0, len(m.value)+len(added)+2), '{')
	b = append(b, added...)
	if m.null() {
		return append(b, '}')
	}
	if len(removed) == 0 {
		if bytes.TrimLeft(m.value[1:], space)[0] != '}' {
			b = append(b, ',')
		}
		return append(b, m.value[1:]...)
	}
	members, _ := membersOf(m.value) // parseAnswer has checked the value
	for i := range members {
		if !removed[strings.ToLower(members[i].name)] {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(b, members[i].pair...)
		}
	}
	return append(b, '}')
}

// appendFields appends the members of an object of header fields, separated by commas. It omits fields that
// are in present.
func appendFields(b []byte, fields http.Header, present []member, list bool) []byte {
	separate := false
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if contains(present, name) {
			continue
		}
		if separate {
			b = append(b, ',')
		}
		separate = true
		value := strings.Join(fields[name], ", ")
		b = append(appendString(b, name), ':')
		if list {
			b = append(appendString(append(b, '['), value), ']')
		} else {
			b = appendString(b, value)
		}
	}
	return b
}

func contains(fields []member, name string) bool {
	for i := range fields {
		if strings.EqualFold(fields[i].name, name) {
			return true
		}
	}
	return false
}

func size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
