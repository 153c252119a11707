package serve

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/gateway"
)

// Page is what the console shows and sends.
type Page struct {
	// APIs are the APIs to which the page can send requests.
	APIs []API
	// Rules returns the rules in force, and Reload their state.
	Rules  func() *rules.Rules
	Reload func() Reload
	Clock  func() time.Time
	// Source is a text that names the origin of the rules, and Store one that names the store. The
	// page shows both.
	Source, Store string
	// Upstream reports that the only API is a server of the user.
	Upstream bool
	// Token returns a token for a user and a tier that the APIs accept.
	Token func(user, tier string) (string, error)
}

// Reload is the state of the rules after the last reload.
type Reload struct {
	Since   time.Time // when the rules in force were loaded
	Problem error     // the reason why the document at the source is not in force; nil if it is
}

// API is an API to which the page can send requests.
type API struct {
	Kind string // REST or HTTP
	URL  string // base URL without a path
	// Endpoints returns the endpoints that the rules in force apply to. The page offers them. It can replace the path.
	Endpoints func() []Endpoint
}

// Endpoint is a method and a path of an API.
type Endpoint struct{ Method, Path string }

func (s *Server) page(apis []*gateway.API, urls []string) Page {
	o := Page{
		Rules: s.live.Current, Reload: func() Reload { return *s.reload.Load() }, Clock: s.Clock, Source: s.Rules, Store: s.Store,
		Upstream: s.Upstream.url != nil,
		Token: func(user, tier string) (string, error) {
			return s.checkout.Token(user, tier, time.Until(s.Clock().Add(consoleToken)), nil)
		},
	}
	for i, api := range apis {
		o.APIs = append(o.APIs, API{Kind: string(api.Kind), URL: urls[i], Endpoints: func() []Endpoint {
			return targets(endpointsOf(s.live.Current()), api.Routes)
		}})
	}
	return o
}

// consoleToken is the lifetime of a token that the console creates. It is longer than any run of
// requests.
const consoleToken = time.Hour

// targets returns an endpoint that the console can call for each route with a rule, in the order of
// the rules.
func targets(rules []endpoint, routes []gateway.Route) (list []Endpoint) {
	for _, rule := range rules {
		for _, route := range routes {
			if !rule.meets(route) {
				continue
			}
			sample := Endpoint{Method: route.Method, Path: route.Path}
			if sample.Method == "ANY" {
				sample.Method = rule.Method
			}
			if sample.Method == "" {
				sample.Method = http.MethodGet
			}
			if wide := route.Path == "$default" || strings.HasSuffix(route.Path, "+}"); wide && rule.Endpoint != "*" {
				sample.Path = rule.Endpoint
			}
			sample.Path = concrete(sample.Path)
			if !slices.Contains(list, sample) {
				list = append(list, sample)
			}
		}
	}
	return list
}

// concrete replaces each path parameter, also a greedy one, with 1.
func concrete(path string) string {
	parts := segments(strings.TrimPrefix(path, "$default"))
	for i, part := range parts {
		if part[0] == '{' || part == "*" {
			parts[i] = "1"
		}
	}
	return "/" + strings.Join(parts, "/")
}
