package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Route is a route of the deployment.
type Route struct {
	Method  string
	Pattern string // such as /items/{id}
	Path    string // with the values of parameters; "" if a value is missing
}

func (r Route) String() string { return r.Method + " " + r.Pattern }

// ParseRoutes reads a list with one route a line, such as "GET /items/{id}", or an OpenAPI document in JSON. values are
// values of parameters; in a document, its examples, defaults and enums are the others.
func ParseRoutes(document []byte, values map[string]string) (routes []Route, err error) {
	document = bytes.TrimSpace(document)
	if bytes.HasPrefix(document, []byte("{")) {
		var d openAPI
		err = json.Unmarshal(document, &d)
		if err == nil {
			routes, err = d.routes(values)
		}
	} else {
		routes, err = listed(string(document), values)
	}
	if err == nil && len(routes) == 0 {
		err = errors.New("got no route")
	}
	return routes, err
}

func listed(text string, values map[string]string) (routes []Route, err error) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		switch words := strings.Fields(line); {
		case len(words) == 0:
		case len(words) == 2 && words[0] == strings.ToUpper(words[0]) && strings.HasPrefix(words[1], "/"):
			routes = append(routes, newRoute(words[0], words[1], values))
		default:
			return nil, fmt.Errorf("got the line %q, want a route such as GET /items/{id}, or OpenAPI in JSON (yq -o json converts YAML)",
				strings.TrimSpace(line))
		}
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

// methods are the methods of an OpenAPI document that verify can send.
var methods = map[string]string{
	"get": http.MethodGet, "head": http.MethodHead, "post": http.MethodPost, "put": http.MethodPut, "patch": http.MethodPatch,
	"delete": http.MethodDelete, "x-amazon-apigateway-any-method": http.MethodGet,
}

// openAPI has the members of an OpenAPI document that routes need. References must be to components.
type openAPI struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]schema
	}
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Example  any
	Examples map[string]struct{ Value any }
	Schema   schema
}

type schema struct {
	Ref                        string `json:"$ref"`
	Example, Default, Examples any
	Enum                       []any
}

func (d *openAPI) routes(values map[string]string) (routes []Route, err error) {
	for pattern, item := range d.Paths {
		var ofPath []parameter
		if raw, ok := item["parameters"]; ok {
			err = errors.Join(err, json.Unmarshal(raw, &ofPath))
		}
		for key, raw := range item {
			method := methods[strings.ToLower(key)]
			if method == "" {
				continue
			}
			var operation struct{ Parameters []parameter }
			err = errors.Join(err, json.Unmarshal(raw, &operation))
			all, query := map[string]string{}, url.Values{}
			for _, p := range slices.Concat(ofPath, operation.Parameters) { // those of the operation replace others
				if p.Ref != "" {
					p = d.Components.Parameters[path.Base(p.Ref)]
				}
				all[p.Name] = cmp.Or(values[p.Name], d.value(p))
				if p.In == "query" && all[p.Name] != "" {
					query.Set(p.Name, all[p.Name])
				}
			}
			maps.Copy(all, values)
			r := newRoute(method, pattern, all)
			if r.Path != "" && len(query) > 0 {
				r.Path += "?" + query.Encode()
			}
			routes = append(routes, r)
		}
	}
	slices.SortFunc(routes, func(a, b Route) int {
		return strings.Compare(a.Pattern+" "+a.Method, b.Pattern+" "+b.Method)
	})
	return routes, err
}

// value returns the first example of a parameter, or else the default or the first permitted value of its schema.
func (d *openAPI) value(p parameter) string {
	candidates := []any{p.Example}
	for _, name := range slices.Sorted(maps.Keys(p.Examples)) {
		candidates = append(candidates, p.Examples[name].Value)
	}
	if p.Schema.Ref != "" {
		p.Schema = d.Components.Schemas[path.Base(p.Schema.Ref)]
	}
	examples, _ := p.Schema.Examples.([]any)
	for _, v := range slices.Concat(candidates, []any{p.Schema.Example}, examples, []any{p.Schema.Default}, p.Schema.Enum) {
		switch v := v.(type) {
		case string:
			return v
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			return strconv.FormatBool(v)
		}
	}
	return ""
}
