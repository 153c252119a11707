package lambdahttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// MaxAnswer is the largest answer that Lambda accepts, as measured. Lambda's quota page says 6 MB.
const MaxAnswer = 6<<20 + 100

// Admitted is an admitted request, which a function in another process answers.
type Admitted struct {
	// Event is the event for the function. Its bytes are the bytes of the event from Lambda, except in three cases: the
	// client has sent a field that only Weir may set, the request is over a limit in mode mark, or the client accepts an encoding
	// from which Weir cannot read a cost.
	Event []byte

	ctx     context.Context // of the request
	w       http.ResponseWriter
	counted bool      // w reads the status, the cost fields and the length of the answer
	begun   bool      // w has the status
	length  int       // of the body of the last answer
	body    io.Writer // gets the body of the last answer; nil if no limit reads it
	costs   []string  // cost fields of the rules
	event   *proxyEvent
}

// Answered converts payload, the answer of the function, into the answer for the host, in parts. It adds
// the fields of the decision that apply to it (see [httplimit.Yield]), and removes the cost fields. All other
// bytes of payload stay. A payload that is no answer to a host stays unchanged. If Lambda did not get the answer,
// Answered can be called again. The first call sets the status and the reported costs, and the last one the length of the body.
func (a *Admitted) Answered(payload []byte) [][]byte {
	full := parseAnswer(payload, a.implied)
	if full == nil || full.status == 0 {
		return a.other(payload)
	}
	return a.amended(full)
}

// implied returns the status that the host gives to an answer without one. A REST API gives 200 if it knows all members
// of the answer. The result is 0 for payload 2.0, because such an answer is only a body, and -1 if the host rejects it.
func (a *Admitted) implied(unknown bool) int {
	switch {
	case a.event.host() == httpAPI:
		return 0
	case a.event.host() == restAPI && a.event.Version == "" && !unknown:
		return http.StatusOK
	}
	return -1
}

// Prelude is Answered for the metadata of a streamed answer. [Admitted.Streamed] gets the body.
func (a *Admitted) Prelude(metadata []byte) [][]byte {
	full := parseAnswer(metadata, func(bool) int { return http.StatusOK })
	if full == nil {
		a.begin(http.StatusBadGateway)
		return [][]byte{metadata}
	}
	return a.amended(full)
}

// Streamed returns the body of a streamed answer, read through a. kind is its content type if it has no metadata. If the function
// repeats the answer, the last call counts.
func (a *Admitted) Streamed(body io.Reader, kind string) io.Reader {
	a.length = 0
	if !a.begun {
		a.body = httplimit.AnswerBody(a.ctx, http.Header{"Content-Type": {kind}})
	}
	return &streamed{body, a}
}

// streamed counts and reads the bytes of a streamed body.
type streamed struct {
	body io.Reader
	to   *Admitted
}

// Read implements io.Reader.
func (s *streamed) Read(b []byte) (int, error) {
	n, err := s.body.Read(b)
	s.to.length += n
	if s.to.body != nil {
		_, _ = s.to.body.Write(b[:n])
	}
	return n, err
}

// zeros are bytes that only count.
var zeros [32 << 10]byte

// end passes the length of the body to the writer of the request.
func (a *Admitted) end() {
	for n := a.length; a.counted && n > 0; n -= len(zeros) {
		_, _ = a.w.Write(zeros[:min(n, len(zeros))])
	}
}

// amended returns an answer with the fields, or without them if the host rejects the answer, or Lambda would.
func (a *Admitted) amended(f *fullAnswer) [][]byte {
	fields, removed := a.w.Header().Clone(), a.reports(f)
	httplimit.Yield(fields, f.status, func(name string) bool { return contains(f.fields, name) })
	fields = spelled(fields)
	a.count(f)
	if !f.rejected {
		if amended := f.amended(a.list(f), fields, removed); size(amended) <= MaxAnswer {
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
	if a.event.host() != httpAPI {
		a.begin(http.StatusBadGateway)
		return unchanged
	}
	a.begin(http.StatusOK)
	if a.counted {
		a.read(strings.NewReader(unquoted(body)), http.Header{"Content-Type": {"application/json"}})
	}
	if len(fields) == 0 || !json.Valid(body) || string(body) == "null" {
		return unchanged
	}
	if full := inferred(body, fields); full != nil {
		return [][]byte{full}
	}
	return unchanged
}

// inferred returns the full form of an answer that is only a body, as a host with payload 2.0 infers it. It returns nil if this
// form is too large.
func inferred(body []byte, fields http.Header) []byte {
	escapes := 0
	if body[0] != '"' {
		escapes = bytes.Count(body, []byte(`"`)) + bytes.Count(body, []byte(`\\`))
	}
	if len(body)+escapes > MaxAnswer { // appending would copy it several times
		return nil
	}
	b := append(make([]byte, 0, len(body)+escapes+1024), `{"statusCode":200,"headers":{"content-type":"application/json"`...)
	b = append(appendFields(append(b, ','), fields, nil, false), `},"body":`...)
	if body[0] == '"' {
		b = append(b, body...)
	} else {
		b = appendString(b, string(body))
	}
	b = append(b, '}')
	if len(b) > MaxAnswer {
		return nil
	}
	return b
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

// count passes the status and the header of the answer to the writer of the request, and keeps the length of the body.
func (a *Admitted) count(f *fullAnswer) {
	h := a.w.Header()
	if a.counted && !a.begun {
		maps.Copy(h, f.sent())
	}
	status := f.status
	if f.rejected {
		status = http.StatusBadGateway
	}
	a.begin(status)
	if a.counted {
		a.read(f.content(), f.sent())
	}
}

// read counts the bytes of the body of an answer with the header h, and reads its costs.
func (a *Admitted) read(body io.Reader, h http.Header) {
	a.body = httplimit.AnswerBody(a.ctx, h)
	n, _ := io.Copy(cmp.Or(a.body, io.Discard), body) // of an invalid body, the host sends nothing
	a.length = int(n)
}

// reports returns the names of the cost fields of an answer, in lower case.
func (a *Admitted) reports(f *fullAnswer) map[string]bool {
	removed := map[string]bool{}
	for _, cost := range a.costs {
		if contains(f.fields, cost) {
			removed[strings.ToLower(cost)] = true
		}
	}
	return removed
}

// begin passes a status to the writer of the request, unless the writer has one.
func (a *Admitted) begin(status int) {
	if !a.begun {
		a.begun = true
		a.w.WriteHeader(status)
	}
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

// fullAnswer is an object that answers an event. Its parts refer to text.
type fullAnswer struct {
	text           []byte
	status         int      // 0 if there is none
	rejected       bool     // the host rejects the answer
	headers, lists *member  // the members headers and multiValueHeaders; nil if there are none
	fields         []member // header fields in headers and lists
	single         int      // number of the fields in headers
	cookies        *member
	body           *member
	base64         bool
}

// parseAnswer parses an answer. It returns nil if text is no object. The function implied returns the status of an answer without one.
func parseAnswer(text []byte, implied func(unknown bool) int) *fullAnswer {
	if !isObject(text) {
		return nil
	}
	members, others := membersOf(text, "statusCode", "headers", "multiValueHeaders", "cookies", "body", "isBase64Encoded")
	f := &fullAnswer{
		text: text, body: find(members, "body"), headers: find(members, "headers"), lists: find(members, "multiValueHeaders"),
		cookies: find(members, "cookies"),
	}
	if given := find(members, "statusCode"); given != nil {
		f.status = statusOf(given.value)
	} else {
		f.status = implied(others || f.cookies != nil)
	}
	f.rejected = f.status < 0
	f.addFields(&f.headers)
	f.single = len(f.fields)
	f.addFields(&f.lists)
	encoded := find(members, "isBase64Encoded")
	f.base64 = encoded != nil && string(encoded.value) == "true"
	return f
}

// statusOf returns the status in an answer, a number or a text of digits. 200.0 and 2e2 are the number 200 in JSON too. It
// returns -1 for other values.
func statusOf(value []byte) int {
	n, err := strconv.ParseFloat(unquoted(value), 64)
	if err != nil || n != math.Trunc(n) || n < http.StatusOK || n > 599 {
		return -1
	}
	return int(n)
}

// addFields adds the header fields in a member. If the member is no object, or has too many fields, the host rejects the answer.
func (f *fullAnswer) addFields(m **member) {
	if (*m).null() {
		return
	}
	fields, err := allMembers((*m).value)
	if err != nil {
		f.rejected, *m = true, nil
	}
	f.fields = append(f.fields, fields...)
}

// sent returns the values of each header field, whatever its spelling. API Gateway sends a value once that is in headers
// and in multiValueHeaders.
func (f *fullAnswer) sent() http.Header {
	single, all := http.Header{}, http.Header{}
	for i, m := range f.fields {
		name := http.CanonicalHeaderKey(m.name)
		for _, value := range values(m.value) {
			if i < f.single {
				single[name] = append(single[name], value)
			} else if slices.Contains(single[name], value) {
				continue
			}
			all[name] = append(all[name], value)
		}
	}
	return all
}

// content returns the body as the client gets it.
func (f *fullAnswer) content() io.Reader {
	if f.body.null() {
		return http.NoBody
	}
	body := strings.NewReader(unquoted(f.body.value))
	if f.base64 {
		return base64.NewDecoder(base64.StdEncoding, body)
	}
	return body
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
	for name, field := range membersIn(m.value) {
		if !removed[strings.ToLower(string(name))] {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(b, field.pair...)
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

// appendString appends a JSON string. It replaces invalid UTF-8.
func appendString(b []byte, s string) []byte {
	w := bytes.NewBuffer(b)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // it would make a body larger
	_ = e.Encode(s)
	return w.Bytes()[:w.Len()-len("\n")]
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
