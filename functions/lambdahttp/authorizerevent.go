package lambdahttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

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
var credentialFields = []string{"Authorization", defaultAPIKeyHeader}

// parseAuthorizerEvent parses an event in one pass. It skips members that the authorizer does not
// need, but they must be valid JSON. Names of members are case-sensitive. If a member repeats, its
// last value counts. If a credential repeats, all values are kept, which makes the credential
// invalid.
//
// kept are lists of the canonical names of the header fields to keep.
func parseAuthorizerEvent(payload []byte, kept ...[]string) (authorizerEvent, error) {
	e := authorizerEvent{header: http.Header{}}
	hasMulti := false // multi-value headers take precedence, as in headerOf
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
				if field := keptField(name, kept); field == "" {
					r.skip()
				} else if value := ""; r.text(&value) && !hasMulti {
					e.header[field] = append(e.header[field], value)
				}
			}
		case "multiValueHeaders":
			for name := range r.members {
				if !hasMulti {
					clear(e.header)
					hasMulti = true
				}
				field := keptField(name, kept)
				if field == "" {
					r.skip()
					continue
				}
				for range r.between('[', ']') {
					value := ""
					r.text(&value)
					e.header[field] = append(e.header[field], value)
				}
			}
		default:
			r.skip()
		}
	}
	if r.err != nil {
		return e, r.err
	}
	if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
		return e, fmt.Errorf("data after the event at byte %d", r.d.InputOffset())
	}
	return e, nil
}

// keptField returns the canonical form of a name if a list has it, and "" otherwise.
func keptField(name []byte, kept [][]string) string {
	for _, list := range kept {
		for _, field := range list {
			if len(name) == len(field) && http.CanonicalHeaderKey(string(name)) == field {
				return field
			}
		}
	}
	return ""
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

// between yields once for each member of an object, or for each element of an array, between two delimiters. null has none.
func (r *eventReader) between(begin, end jsontext.Kind) func(func() bool) {
	return func(yield func() bool) {
		if r.err != nil {
			return
		}
		token, err := r.d.ReadToken()
		switch {
		case err != nil:
			r.fail(err)
			return
		case token.Kind() != begin:
			r.mismatch(token, begin)
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

// text reads a string into s. For null it does not change s.
func (r *eventReader) text(s *string) (ok bool) {
	if r.err != nil {
		return false
	}
	token, err := r.d.ReadToken()
	switch {
	case err != nil:
		r.fail(err)
	case token.Kind() == '"':
		*s = token.String()
	default:
		r.mismatch(token, '"')
	}
	return r.err == nil
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

// mismatch keeps an error for a value of another type, unless it is null.
func (r *eventReader) mismatch(got jsontext.Token, want jsontext.Kind) {
	if got.Kind() != 'n' {
		r.err = fmt.Errorf("wrong type before byte %d (got %s, want %s)", r.d.InputOffset(), got.Kind(), want)
	}
}
