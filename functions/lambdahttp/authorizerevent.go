package lambdahttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// authorizerEvent contains the parts of a REQUEST event that the authorizer needs.
type authorizerEvent struct {
	kind      string // value of the member type
	methodARN string
	method    string
	path      string
	header    http.Header // contains only the credentialFields and the fields that the rules use
	domain    string
	sourceIP  string
}

// defaultAPIKeyHeader is the header field of API keys if Environment.APIKeyHeader is empty.
const defaultAPIKeyHeader = "X-Api-Key"

// credentialFields are the header fields that usually contain credentials.
var credentialFields = [...]string{"Authorization", defaultAPIKeyHeader}

// parseAuthorizerEvent parses an event in one pass. It skips members that the authorizer does not
// need, but they must be valid JSON. Names of members are case-sensitive. If a member repeats, its
// last value counts. If a credential repeats, all values are kept, which makes the credential
// invalid.
//
// fields are the canonical names of the other header fields to keep.
func parseAuthorizerEvent(payload []byte, fields []string) (authorizerEvent, error) {
	var e authorizerEvent
	var single, multi [len(credentialFields)][]string
	var singleFields, multiFields http.Header // the other fields; nil if there are none
	hasMulti := false
	r := eventReader{d: jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	for name := range r.members {
		switch string(name) {
		case "type":
			r.text(&e.kind)
		case "methodArn":
			r.text(&e.methodARN)
		case "httpMethod":
			r.text(&e.method)
		case "path":
			r.text(&e.path)
		case "requestContext":
			r.context(&e)
		case "headers":
			for name := range r.members {
				if field := credentialField(name); field >= 0 {
					single[field] = append(single[field], r.value())
				} else if field := otherField(name, fields); field != "" {
					singleFields = with(singleFields, field, r.value())
				} else {
					r.skip()
				}
			}
		case "multiValueHeaders":
			for name := range r.members {
				hasMulti = true
				if field := credentialField(name); field >= 0 {
					for range r.elements {
						multi[field] = append(multi[field], r.value())
					}
				} else if field := otherField(name, fields); field != "" {
					for range r.elements {
						multiFields = with(multiFields, field, r.value())
					}
				} else {
					r.skip()
				}
			}
		default:
			r.skip()
		}
	}
	if hasMulti { // multi-value headers take precedence, as in headerOf
		single, singleFields = multi, multiFields
	}
	if e.header = singleFields; e.header == nil {
		e.header = http.Header{}
	}
	for i, values := range single {
		if values != nil {
			e.header[credentialFields[i]] = values
		}
	}
	return e, r.end()
}

// credentialField returns the index of a header field in credentialFields. It returns -1 for other
// fields.
func credentialField(name []byte) int {
	for i, field := range credentialFields {
		if len(name) == len(field) && http.CanonicalHeaderKey(string(name)) == field {
			return i
		}
	}
	return -1
}

// otherField returns the element of fields that is the canonical form of a name. It returns "" for
// other names.
func otherField(name []byte, fields []string) string {
	if len(fields) > 0 {
		if i, ok := slices.BinarySearch(fields, http.CanonicalHeaderKey(string(name))); ok {
			return fields[i]
		}
	}
	return ""
}

// with returns h with one more value of a field. It creates h if h is nil.
func with(h http.Header, field, value string) http.Header {
	if h == nil {
		h = http.Header{}
	}
	h[field] = append(h[field], value)
	return h
}

// eventReader reads an event and keeps the first error. After an error it reads nothing.
type eventReader struct {
	d   *jsontext.Decoder
	err error
}

func (r *eventReader) context(e *authorizerEvent) {
	for name := range r.members {
		switch string(name) {
		case "domainName":
			r.text(&e.domain)
		case "identity":
			for name := range r.members {
				if string(name) == "sourceIp" {
					r.text(&e.sourceIP)
				} else {
					r.skip()
				}
			}
		default:
			r.skip()
		}
	}
}

// members yields the name of each member of an object. The body of the loop must read the value of the
// member. The name is invalid after the value has been read. null has no members.
func (r *eventReader) members(yield func(name []byte) bool) {
	for range r.between('{', '}') {
		name, err := r.d.ReadValue()
		if err != nil {
			r.fail(err)
			return
		}
		text := []byte(name[1 : len(name)-1])
		if bytes.IndexByte(text, '\\') >= 0 {
			text, _ = jsontext.AppendUnquote(nil, name) // the only possible error reports that invalid UTF-8 was replaced
		}
		if !yield(text) {
			return
		}
	}
}

// elements yields once for each element of an array. The body of the loop must read the element. null
// has no elements.
func (r *eventReader) elements(yield func() bool) {
	for range r.between('[', ']') {
		if !yield() {
			return
		}
	}
}

// between yields once for each member or element between two delimiters.
func (r *eventReader) between(begin, end jsontext.Kind) func(func() bool) {
	return func(yield func() bool) {
		if !r.begins(begin) {
			return
		}
		for r.err == nil && r.d.PeekKind() != end {
			if !yield() {
				return
			}
		}
		if r.err == nil {
			_, err := r.d.ReadToken()
			r.fail(err)
		}
	}
}

// begins reads the beginning of an object or an array. It returns false for null.
func (r *eventReader) begins(begin jsontext.Kind) bool {
	if r.err != nil {
		return false
	}
	token, err := r.d.ReadToken()
	switch {
	case err != nil:
		r.fail(err)
	case token.Kind() == begin:
		return true
	case token.Kind() != 'n':
		r.mismatch(token, begin)
	}
	return false
}

// text reads a string into s. For null it does not change s.
func (r *eventReader) text(s *string) {
	if r.err != nil {
		return
	}
	token, err := r.d.ReadToken()
	switch {
	case err != nil:
		r.fail(err)
	case token.Kind() == '"':
		*s = token.String()
	case token.Kind() != 'n':
		r.mismatch(token, '"')
	}
}

func (r *eventReader) value() (s string) {
	r.text(&s)
	return s
}

func (r *eventReader) skip() {
	if r.err == nil {
		r.fail(r.d.SkipValue())
	}
}

// fail keeps an error of the decoder. It does not keep the text of the error, which may contain names
// from a client.
func (r *eventReader) fail(err error) {
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		r.err = io.ErrUnexpectedEOF
	default:
		r.err = fmt.Errorf("malformed JSON at byte %d", r.d.InputOffset())
	}
}

func (r *eventReader) mismatch(got jsontext.Token, want jsontext.Kind) {
	r.err = fmt.Errorf("wrong type before byte %d (got %s, want %s)", r.d.InputOffset(), got.Kind(), want)
}

// end returns the error of the whole event. Data after the event is an error.
func (r *eventReader) end() error {
	if r.err != nil {
		return r.err
	}
	if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("data after the event at byte %d", r.d.InputOffset())
	}
	return nil
}
