package template

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

const maxHTTPTimeout = 30 * time.Second

// DefaultKey is the name of the default stage and the key of the default route. URLs do not contain
// the default stage. The default route gets the requests that match no other route.
const DefaultKey = "$default"

// HTTP is an HTTP API: an AWS::ApiGatewayV2::Api and the resources that belong to it.
type HTTP struct {
	ID, Name string
	Stage    string
	Throttle algo.Machine // of the stage; each route has its own bucket of this size and rate; nil if unlimited
	Routes   []*Route
	Default  *Route // route $default, or nil
}

// Route is a route of an HTTP API with its integration.
type Route struct {
	Key      string // such as "GET /pets/{id}"
	Method   string
	Path     []Segment
	Function string // logical id of the function
	Timeout  time.Duration
}

func (p *parser) readHTTP() {
	var api *HTTP
	type httpAPI struct {
		Name, ProtocolType string
		Description, Tags  any
	}
	each(p, "AWS::ApiGatewayV2::Api", func(id string, q httpAPI) {
		if api != nil {
			p.fail(id, "second HTTP API; this gateway serves one")
		}
		want(p, id, "ProtocolType", q.ProtocolType, "HTTP")
		api = &HTTP{ID: id, Name: q.Name}
	})
	if api == nil || p.err != nil {
		return
	}
	p.template.HTTP = api
	type stage struct {
		APIID, StageName     string
		AutoDeploy           bool
		DefaultRouteSettings struct {
			throttle
			DataTraceEnabled, DetailedMetricsEnabled, LoggingLevel any
		}
		AccessLogSettings, Description, Tags any
	}
	each(p, "AWS::ApiGatewayV2::Stage", func(id string, q stage) {
		want(p, id, "ApiId", q.APIID, api.ID)
		want(p, id, "AutoDeploy", q.AutoDeploy, true)
		if api.Stage != "" {
			p.fail(id, "second stage of %s; local URLs have no stage name", api.ID)
		}
		api.Stage, api.Throttle = q.StageName, q.DefaultRouteSettings.bucket(p, id)
	})
	p.readRoutes(api)
	if api.Stage == "" {
		p.fail(api.ID, "no AWS::ApiGatewayV2::Stage deploys it")
	}
}

func (p *parser) readRoutes(api *HTTP) {
	type integration struct {
		APIID, IntegrationType, PayloadFormatVersion, IntegrationURI string
		TimeoutInMillis                                              int
		Description, IntegrationMethod                               any
	}
	integrations := map[string]integration{}
	each(p, "AWS::ApiGatewayV2::Integration", func(id string, q integration) {
		want(p, id, "ApiId", q.APIID, api.ID)
		want(p, id, "IntegrationType", q.IntegrationType, "AWS_PROXY")
		want(p, id, "PayloadFormatVersion", q.PayloadFormatVersion, "2.0")
		if q.TimeoutInMillis == 0 {
			q.TimeoutInMillis = int(maxHTTPTimeout.Milliseconds())
		}
		integrations[id] = q
	})
	type route struct {
		APIID, RouteKey, Target, AuthorizationType string
		OperationName                              any
	}
	each(p, "AWS::ApiGatewayV2::Route", func(id string, q route) {
		want(p, id, "ApiId", q.APIID, api.ID)
		if q.AuthorizationType != "" {
			want(p, id, "AuthorizationType", q.AuthorizationType, "NONE")
		}
		r, ok := parseRouteKey(q.RouteKey)
		i, known := integrations[strings.TrimPrefix(q.Target, "integrations/")]
		switch {
		case !ok || slices.ContainsFunc(api.Routes, r.same) || r.Method == "" && api.Default != nil:
			p.fail(id, "RouteKey: got %q, want a method and a path, or %s, that %s does not have yet", q.RouteKey, DefaultKey, api.ID)
			return
		case !known:
			p.fail(id, "Target: got %q, want integrations/ and an integration of %s", q.Target, api.ID)
			return
		case r.Method == "":
			api.Default = r
		default:
			api.Routes = append(api.Routes, r)
		}
		path := "/" + DefaultKey
		if _, declared, ok := strings.Cut(r.Key, " "); ok {
			path = "/" + r.Method + declared
		}
		r.Timeout = time.Duration(i.TimeoutInMillis) * time.Millisecond
		r.Function = p.invoked(id, "IntegrationUri", i.IntegrationURI, arn("execute-api", api.ID+"/"+api.Stage+path))
	})
}

func parseRouteKey(key string) (*Route, bool) {
	if key == DefaultKey {
		return &Route{Key: key}, true
	}
	method, path, ok := strings.Cut(key, " ")
	if !ok || !slices.Contains(verbs, method) || !strings.HasPrefix(path, "/") {
		return nil, false
	}
	route := &Route{Key: key, Method: method}
	parts := SplitPath(path)
	for i, part := range parts {
		s, ok := parseSegment(part)
		if !ok || s.Kind == Greedy && i < len(parts)-1 {
			return nil, false
		}
		route.Path = append(route.Path, s)
	}
	return route, true
}

func (r *Route) same(other *Route) bool {
	alike := func(a, b Segment) bool { return a.Kind == b.Kind && (a.Kind != Literal || a.Text == b.Text) }
	return r.Method == other.Method && slices.EqualFunc(r.Path, other.Path, alike)
}
