package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Route is a method of a REST API or a route of an HTTP API.
type Route struct {
	// Method is an HTTP method or ANY. Path has parameters as {name} or {name+}.
	Method, Path string
}

var verbs = []string{"ANY", http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost,
	http.MethodPut}

type route struct {
	Route

	segments []segment
	throttle *throttle
}

// segment is one part of the path of a route, between two slashes.
type segment struct {
	kind segmentKind
	text string // the literal, or the parameter's name
}

// segmentKind defines which parts of a path a segment matches. A smaller value is more specific.
type segmentKind int

const (
	literal segmentKind = iota // matches one part, equal to text
	param                      // {name}: matches one part
	greedy                     // {name+}: matches the rest of the path
)

// segmentForm has the characters that a path part may contain (developer guide, "Amazon API Gateway
// important notes").
var segmentForm = regexp.MustCompile(`^(?:([A-Za-z0-9._:,-]+)|\{([A-Za-z0-9._:-]+)(\+?)\})$`)

// parseRoutes parses routes such as "GET /items/{id}". An API cannot have the same route twice, nor two names of a parameter
// at one place.
func parseRoutes(keys []string) (list []*route, err error) {
	names := map[string]string{} // of parameters, by the path before them
	for _, key := range keys {
		method, path, _ := strings.Cut(key, " ")
		r := &route{Route: Route{method, path}}
		valid := slices.Contains(verbs, method) && strings.HasPrefix(path, "/") &&
			!slices.ContainsFunc(list, func(other *route) bool { return other.Route == r.Route })
		parts := splitPath(path)
		for i, part := range parts {
			match := segmentForm.FindStringSubmatch(part)
			if match == nil {
				valid = false
				break
			}
			s := segment{literal, part}
			if match[1] == "" {
				s = segment{param, match[2]}
				place := strings.Join(parts[:i], "/") + match[3]
				valid = valid && cmp.Or(names[place], s.text) == s.text
				names[place] = s.text
			}
			if match[3] != "" {
				s.kind = greedy
				valid = valid && i == len(parts)-1
			}
			r.segments = append(r.segments, s)
		}
		if !valid {
			return nil, fmt.Errorf("route %q: want a method and a path that the API does not have yet, such as GET /items/{id}", key)
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *route) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	return list, nil
}

// splitPath returns the parts of a path between the slashes. It returns none for "/".
func splitPath(path string) []string {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// parameters returns the path parameters of a request whose path has these parts.
func (r *route) parameters(parts []string) map[string]string {
	values := map[string]string{}
	for i, s := range r.segments {
		switch s.kind {
		case literal:
		case param:
			values[s.text] = parts[i]
		case greedy:
			values[s.text] = strings.Join(parts[i:], "/")
		}
	}
	return values
}

// ofMethod returns the route for a method. ANY matches the seven verbs of API Gateway.
func ofMethod(routes []*route, method string) (found *route) {
	for _, r := range routes {
		if r.Method == method || r.Method == "ANY" && found == nil && slices.Contains(verbs, method) {
			found = r
		}
	}
	return found
}

// matchREST finds the route of a REST API, among those that match the parts before depth. Path parameters stay
// percent-encoded. A literal has precedence over its sibling {name} for all paths below it, even if the literal lacks the
// method (developer guide, "Set up a method request in API Gateway"). Recorded: {name+} gets the requests that no other
// resource matches. Assumed: a literal is compared with the decoded part of the path, or with the raw part if its
// percent-encoding is malformed.
func matchREST(routes []*route, method string, parts []string, depth int) *route {
	if depth == len(parts) {
		return ofMethod(slices.DeleteFunc(slices.Clone(routes), func(r *route) bool { return len(r.segments) > depth }), method)
	}
	decoded, err := url.PathUnescape(parts[depth])
	if err != nil {
		decoded = parts[depth]
	}
	var below [greedy + 1][]*route
	for _, r := range routes {
		if len(r.segments) > depth {
			if s := r.segments[depth]; s.kind != literal && (s.kind == greedy || parts[depth] != "") || s.text == decoded {
				below[s.kind] = append(below[s.kind], r)
			}
		}
	}
	next := below[literal]
	if next == nil {
		next = below[param]
	}
	if next != nil {
		if found := matchREST(next, method, parts, depth+1); found != nil {
			return found
		}
	}
	return ofMethod(below[greedy], method)
}

// matchHTTP returns the most specific route of an HTTP API for a request, or nil. The developer guide ("Routing API requests")
// documents the order: a full match, then a match with {name+}. Assumed from the guide's example: of two routes of the same
// kind, the one with the earlier literal segment wins. Of two routes with the same path, the one that names the method wins.
func matchHTTP(routes []*route, method string, parts []string) (best *route) {
	for _, r := range routes {
		if r.matches(method, parts) && (best == nil || slices.Compare(r.rank(), best.rank()) < 0) {
			best = r
		}
	}
	return best
}

func (r *route) matches(method string, parts []string) bool {
	if r.Method != "ANY" && r.Method != method || len(parts) < len(r.segments) {
		return false
	}
	for i, s := range r.segments {
		if s.kind == greedy {
			return true
		}
		if s.kind == param && parts[i] == "" || s.kind == literal && s.text != parts[i] {
			return false
		}
	}
	return len(parts) == len(r.segments)
}

// rank orders routes that match the same request: the first one wins.
func (r *route) rank() []int {
	ranks := []int{0}
	for _, s := range r.segments {
		ranks = append(ranks, int(s.kind))
		if s.kind == greedy {
			ranks[0] = 1
		}
	}
	if r.Method == "ANY" {
		ranks = append(ranks, 1)
	}
	return ranks
}
