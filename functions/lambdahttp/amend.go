package lambdahttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// MaxAnswer is the largest answer that Lambda accepts, as measured. Lambda's quota page says 6 MB.
const MaxAnswer = 6<<20 + 100

// Admitted is an admitted request, which a function in another process answers once.
type Admitted struct {
	// Event is the event for the function. Its bytes are the bytes of the event from Lambda, except in three cases: the
	// client has sent a field that only Weir may set, the request is over a limit in mode mark, or the client accepts an encoding
	// from which Weir cannot read a cost.
	Event []byte

	w       http.ResponseWriter
	counted bool // w reads the status, the cost field and the body of the answer
	cost    bool // a limit of the rules counts costs, so the answer loses the cost field
	event   *proxyEvent
}

// Answered converts payload, the answer of the function, into the answer for the host. It adds the fields of the decision
// that apply to it (see [httplimit.Yield]), and removes the cost field. All other members keep their values. A payload
// that is no answer to a host stays unchanged.
func (a *Admitted) Answered(payload []byte) []byte {
	full := parseAnswer(payload, a.implied)
	if full == nil || full.status == 0 {
		return a.other(payload)
	}
	return a.amended(full)
}

// implied returns the status that the host gives to an answer without one. A REST API gives 200 if it knows all members
// of the answer. The result is 0 for payload 2.0, because such an answer is only a body, and -1 if the host rejects it.
func (a *Admitted) implied(members object) int {
	unknown := func(name string) bool {
		return !slices.Contains([]string{"headers", "multiValueHeaders", "body", "isBase64Encoded"}, name)
	}
	switch {
	case a.event.host() == httpAPI:
		return 0
	case a.event.host() == restAPI && a.event.Version == "" && !slices.ContainsFunc(slices.Collect(maps.Keys(members)), unknown):
		return http.StatusOK
	}
	return -1
}

// Prelude is Answered for the metadata of a streamed answer. Then [Admitted.Streamed] gets the body.
func (a *Admitted) Prelude(metadata []byte) []byte {
	full := parseAnswer(metadata, func(object) int { return http.StatusOK })
	if full == nil {
		a.begin(http.StatusBadGateway, nil)
		return metadata
	}
	return a.amended(full)
}

// Streamed returns the body of a streamed answer, read through a. kind is its content type if it has no metadata.
func (a *Admitted) Streamed(body io.Reader, kind string) io.Reader {
	a.begin(http.StatusOK, http.Header{"Content-Type": {kind}})
	return io.TeeReader(body, a.w)
}

// begin passes a status and a header to the writer of the request, unless the writer has a status.
func (a *Admitted) begin(status int, h http.Header) {
	if a.counted {
		maps.Copy(a.w.Header(), h)
	}
	a.w.WriteHeader(status)
}

// read passes the body of an answer to the writer of the request. Of an invalid body, the host sends nothing.
func (a *Admitted) read(body io.Reader) {
	_, _ = io.Copy(a.w, struct{ io.Reader }{body}) // in parts: some readers would write a copy of all bytes
}

// amended returns an answer with the fields, or without them if the host rejects the answer, or Lambda would.
func (a *Admitted) amended(f *fullAnswer) []byte {
	fields, status := a.w.Header().Clone(), f.status
	httplimit.Yield(fields, status, f.has)
	if f.rejected {
		status = http.StatusBadGateway
	}
	a.begin(status, f.sent())
	if a.counted {
		a.read(f.content())
	}
	if a.cost {
		f.headers.remove(sameField(limiter.CostField))
		f.lists.remove(sameField(limiter.CostField))
	}
	if f.rejected {
		return f.text()
	}
	return f.with(fields, a.list(f))
}

// other returns the answer for a payload without a status. For payload 2.0, such a payload is the body of a
// 200. For other hosts, it is an error.
func (a *Admitted) other(payload []byte) []byte {
	if a.event.host() != httpAPI {
		a.begin(http.StatusBadGateway, nil)
		return payload
	}
	fields, body := a.w.Header().Clone(), bytes.TrimSpace(payload)
	a.begin(http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	if a.counted {
		a.read(strings.NewReader(unquoted(body)))
	}
	if len(fields) == 0 || !json.Valid(body) || string(body) == "null" {
		return payload
	}
	if body[0] != '"' {
		body = encoded(string(body))
	}
	f := &fullAnswer{members: object{"statusCode": []byte("200"), "body": body}, headers: object{"content-type": []byte(`"application/json"`)}}
	if full := f.with(fields, false); len(full) <= MaxAnswer {
		return full
	}
	return payload
}

// list reports whether the host reads lists of values from an answer. A load balancer reads either lists or
// single values, and its events have the same form.
func (a *Admitted) list(f *fullAnswer) bool {
	if a.event.host() == loadBalancer {
		return len(a.event.MultiHeaders) > 0
	}
	return a.event.host() == restAPI && f.headers == nil && f.lists != nil
}

// fullAnswer is an object that answers an event.
type fullAnswer struct {
	members        object
	headers, lists object // header fields in the members headers and multiValueHeaders; nil if there are none
	status         int    // 0 if there is none
	rejected       bool   // the host rejects the answer
}

// parseAnswer parses an answer. It returns nil if text is no object. The function implied returns the status of an answer without one.
func parseAnswer(text []byte, implied func(object) int) *fullAnswer {
	f := &fullAnswer{members: objectOf(text)}
	if f.members == nil {
		return nil
	}
	if given, ok := f.members["statusCode"]; ok {
		f.status = statusOf(given)
	} else {
		f.status = implied(f.members)
	}
	f.headers, f.lists = objectOf(f.members["headers"]), objectOf(f.members["multiValueHeaders"])
	f.rejected = f.status < 0 || f.headers == nil && f.members.has("headers") || f.lists == nil && f.members.has("multiValueHeaders")
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

// sent returns the values of each header field, whatever its spelling. API Gateway sends a value once that is in headers
// and in multiValueHeaders.
func (f *fullAnswer) sent() http.Header {
	single := http.Header{}
	for name, raw := range f.headers {
		name = http.CanonicalHeaderKey(name)
		single[name] = append(single[name], values(raw)...)
	}
	all := single.Clone()
	for name, raw := range f.lists {
		name = http.CanonicalHeaderKey(name)
		for _, value := range values(raw) {
			if !slices.Contains(single[name], value) {
				all[name] = append(all[name], value)
			}
		}
	}
	return all
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

// content returns the body as the client gets it.
func (f *fullAnswer) content() io.Reader {
	if !f.members.has("body") {
		return http.NoBody
	}
	body := strings.NewReader(unquoted(f.members["body"]))
	if string(f.members["isBase64Encoded"]) == "true" {
		return base64.NewDecoder(base64.StdEncoding, body)
	}
	return body
}

// has reports whether the answer has a header field, whatever its spelling.
func (f *fullAnswer) has(field string) bool {
	return slices.ContainsFunc(slices.Concat(slices.Collect(maps.Keys(f.headers)), slices.Collect(maps.Keys(f.lists))), sameField(field))
}

// with returns the text with added header fields, except those that the answer has. If list is true, they are in
// multiValueHeaders. If Lambda would reject the text, it is without them.
func (f *fullAnswer) with(fields http.Header, list bool) []byte {
	before, into := *f, &f.headers
	if list {
		into = &f.lists
	}
	added := object{}
	for name, value := range joined(spelled(fields)) {
		if before.has(name) {
			continue
		}
		added[name] = encoded(value)
		if list {
			added[name] = encoded([]string{value})
		}
	}
	if len(added) > 0 {
		maps.Copy(added, *into)
		*into = added
	}
	full := f.text()
	if len(full) > MaxAnswer {
		return before.text()
	}
	return full
}

func (f *fullAnswer) text() []byte {
	members := maps.Clone(f.members)
	for name, fields := range map[string]object{"headers": f.headers, "multiValueHeaders": f.lists} {
		if fields != nil {
			members[name] = fields.text()
		}
	}
	return members.text()
}
