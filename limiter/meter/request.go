package meter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Request is what the body of a request has at the paths of its sources. A nil Request stands for a body that was not read: the
// highest reserve and the highest weights apply.
type Request struct{ tokens map[int]string }

// ReadsRequest reports whether one of the sources needs the body of the request.
func ReadsRequest(sources ...*Source) bool { return ofRequest(sources) != 0 }

func ofRequest(sources []*Source) (all Set) {
	for _, s := range sources {
		all |= s.ofRequest()
	}
	return all
}

// ReadRequest reads the body of a request with the header h. Bodies that back ends can read in another way have no values: the
// Request is nil. An error means that a name at a path is repeated, or differs only in case. Parsers differ in which member they
// use then, so the request must be refused.
func ReadRequest(h http.Header, body []byte, sources ...*Source) (*Request, error) {
	r := &Request{tokens: map[int]string{}}
	switch {
	case len(body) == 0:
		return r, nil
	case !readable(h) || !utf8.Valid(body) || !json.Valid(body):
		return nil, nil
	}
	names := sources[0].Paths.names
	s := &scanner{names: names, wanted: ofRequest(sources), strict: true, ended: func(bool) {}}
	s.found = func(at Set, token []byte) {
		for i := range at.each {
			r.tokens[i] = cmp.Or(string(token), noScalar)
		}
	}
	s.Write(body)
	for i := range s.ambiguous.each {
		return nil, fmt.Errorf("member %q: got it twice, or in another case; send it once", strings.Join(names[i], "."))
	}
	if s.broken {
		return nil, nil
	}
	return r, nil
}

// noScalar stands for a container and for a long token.
const noScalar = "?"

// readable reports whether all back ends read a body with this header as JSON in UTF-8.
func readable(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) > 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	if len(types) == 0 {
		return true
	}
	kind, parameters, err := mime.ParseMediaType(types[0])
	charset, set := parameters["charset"]
	return err == nil && isJSON(kind) && (!set || strings.EqualFold(charset, "utf-8"))
}

// Reserve returns the reserve of the request for a source with a reserve.
func (r *Request) Reserve(s *Source, parameter string) (reserve int64) {
	tokens := s.MostReserve
	if r != nil {
		tokens = 0
		for i := range s.Reserve.each {
			if token := r.tokens[i]; token != "" && token != "null" {
				n, _ := parse([]byte(token))
				if n <= 0 || n > s.MostReserve { // a back end can read "9" as a number
					n = s.MostReserve
				}
				tokens = max(tokens, n)
			}
		}
		if tokens == 0 {
			tokens = s.Default
		}
	}
	for weights := range s.choose(r, parameter) {
		for _, w := range weights {
			reserve = max(reserve, product(tokens, w))
		}
	}
	return max(reserve, 1)
}

// choose yields the weights for a request: those for its value, or all of them if the value is unknown.
func (s *Source) choose(r *Request, parameter string) iter.Seq[[]int64] {
	value := parameter
	switch {
	case s.By != 0 && r == nil:
		return maps.Values(s.Weights)
	case s.By != 0:
		value = ""
		for i := range s.By.each {
			if token := r.tokens[i]; strings.HasPrefix(token, `"`) {
				value = unquoted([]byte(token))
			}
		}
	}
	return func(yield func([]int64) bool) { yield(s.weights(value)) }
}
