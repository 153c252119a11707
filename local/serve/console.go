package serve

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/local/console"
	"github.com/weir-limits/weir/local/gateway"
)

func (s *Server) console(apis []*gateway.API, urls []string) *console.Console {
	o := console.Options{
		Rules: s.live.Current, Reload: func() console.Reload { return *s.reload.Load() }, Clock: s.Clock, Source: s.Rules, Store: s.Store, Regions: s.region != nil, Upstream: s.Upstream.url != nil,
		Token: func(user, tier string) (string, error) {
			return s.checkout.Token(user, tier, time.Until(s.Clock().Add(consoleToken)), nil)
		},
	}
	for i, api := range apis {
		o.APIs = append(o.APIs, console.API{Kind: string(api.Kind), URL: urls[i], Endpoints: func() []console.Endpoint {
			return targets(endpointsOf(s.live.Current()), api.Routes)
		}})
	}
	return console.New(o)
}

// consoleToken is the lifetime of a token that the console creates. It is longer than any run of
// requests.
const consoleToken = time.Hour

// targets returns an endpoint that the console can call for each route with a rule, in the order of
// the rules.
func targets(rules []endpoint, routes []gateway.Route) (list []console.Endpoint) {
	for _, rule := range rules {
		for _, route := range routes {
			if !rule.meets(route) {
				continue
			}
			sample := console.Endpoint{Method: route.Method, Path: route.Path}
			if sample.Method == "ANY" {
				sample.Method = rule.Method
			}
			if sample.Method == "" {
				sample.Method = http.MethodGet
			}
			if wide := route.Path == "$default" || strings.HasSuffix(route.Path, "+}"); wide && rule.Endpoint != "*" {
				sample.Path = rule.Endpoint
			}
			if sample.Path = concrete(sample.Path); !slices.Contains(list, sample) {
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
