package verify

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Route is a route of the deployment.
type Route struct {
	Method  string
	Pattern string // such as /items/{id}
	Path    string // with the values of parameters; "" if a value is missing
}

func (r Route) String() string { return r.Method + " " + r.Pattern }

// ParseRoutes reads a list with one route a line, such as "GET /items/{id}". values are values of parameters.
func ParseRoutes(list string, values map[string]string) (routes []Route, err error) {
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		switch words := strings.Fields(line); {
		case len(words) == 0:
		case len(words) == 2 && words[0] == strings.ToUpper(words[0]) && strings.HasPrefix(words[1], "/"):
			routes = append(routes, newRoute(words[0], words[1], values))
		default:
			return nil, fmt.Errorf("got the line %q, want a route such as GET /items/{id}; infra/VERIFY.md makes the list of an OpenAPI document",
				strings.TrimSpace(line))
		}
	}
	if len(routes) == 0 {
		return nil, errors.New("got no route")
	}
	return routes, nil
}

var placeholder = regexp.MustCompile(`\{[^{}/]*\}`)

// newRoute returns a route with the values of its path parameters.
func newRoute(method, pattern string, values map[string]string) Route {
	complete := true
	path := placeholder.ReplaceAllStringFunc(pattern, func(p string) string {
		value := values[strings.Trim(p, "{+}")]
		complete = complete && value != ""
		if strings.HasSuffix(p, "+}") {
			return strings.ReplaceAll(url.PathEscape(value), "%2F", "/")
		}
		return url.PathEscape(value)
	})
	if !complete {
		path = ""
	}
	return Route{method, pattern, path}
}
