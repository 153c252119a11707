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
	ID, Name  string
	Stage     string
	Variables map[string]string // stage variables
	throttle  algo.Machine      // throttle of the stage; each route has its own bucket of this size and rate
	CORS      *CORS             // nil if the API has no CorsConfiguration
	Routes    []*Route
	Default   *Route // route $default, or nil
}

// Route is a route of an HTTP API with its integration.
type Route struct {
	Key      string // such as "GET /pets/{id}"
	Method   string
	Path     []Segment
	Function string // logical id of the function
	Timeout  time.Duration
	Throttle algo.Machine // nil if unlimited
}

type httpIntegration struct {
	api      *HTTP
	function Function
	known    bool // true if the integration names a function of this template
	timeout  time.Duration
}

func (d *parser) readHTTPAPIs() {
	apis := map[string]*HTTP{}
	d.each("AWS::ApiGatewayV2::Api", func(id string, q *properties) {
		if kind := q.text("ProtocolType"); kind != "HTTP" {
			q.refuse("ProtocolType", kind, "HTTP")
		}
		q.only("RouteSelectionExpression", "the default, which is the only one of an HTTP API", "$request.method $request.path",
			"${request.method} ${request.path}")
		q.only("DisableExecuteApiEndpoint", "false: there is no other endpoint here", false)
		apis[id] = &HTTP{ID: id, Name: q.text("Name"), CORS: readCORS(q)}
		q.inert("Description", "FailOnWarnings", "IpAddressType", "Tags")
		d.template.HTTP = append(d.template.HTTP, apis[id])
	})
	owner := ownerOf(apis, "ApiId", "a Ref to an HTTP API of this template")
	d.each("AWS::ApiGatewayV2::Stage", func(_ string, q *properties) { d.readHTTPStage(owner(q), q) })
	integrations := map[string]httpIntegration{}
	d.each("AWS::ApiGatewayV2::Integration", func(id string, q *properties) {
		integrations[id] = d.readHTTPIntegration(owner(q), q)
	})
	d.each("AWS::ApiGatewayV2::Route", func(_ string, q *properties) { d.readRoute(owner(q), integrations, q) })
	for _, api := range d.template.HTTP {
		if api.Stage == "" {
			d.p.add("Resources."+api.ID, "no AWS::ApiGatewayV2::Stage deploys it")
		}
	}
}

func (d *parser) readHTTPStage(api *HTTP, q *properties) {
	name, variables := q.required("StageName"), q.textMap("StageVariables")
	q.only("AutoDeploy", "true: nothing else deploys it", true)
	if !q.has("AutoDeploy") && !q.has("DeploymentId") {
		d.p.add(q.at("AutoDeploy"), "required: nothing else deploys the stage")
	}
	var bucket algo.Machine
	if settings := q.object("DefaultRouteSettings"); settings != nil {
		bucket = readThrottle(settings)
		settings.inert("DataTraceEnabled", "DetailedMetricsEnabled", "LoggingLevel")
		settings.done()
	}
	q.inert("AccessLogSettings", "DeploymentId", "Description", "Tags")
	if api == nil {
		return
	}
	if api.Stage != "" {
		d.p.add(q.path, "second stage of %s (the first is %s); local URLs have no stage name", api.ID, api.Stage)
	}
	api.Stage, api.Variables, api.throttle = name, variables, bucket
}

func (d *parser) readHTTPIntegration(api *HTTP, q *properties) httpIntegration {
	if kind := q.text("IntegrationType"); kind != "AWS_PROXY" {
		q.refuse("IntegrationType", kind, "AWS_PROXY")
	}
	if version := q.text("PayloadFormatVersion"); version != "2.0" {
		q.refuse("PayloadFormatVersion", version, "2.0")
	}
	q.only("ConnectionType", "INTERNET", "INTERNET")
	limit := int(maxHTTPTimeout.Milliseconds())
	i := httpIntegration{api: api}
	i.timeout = time.Duration(q.number("TimeoutInMillis", limit, 50, limit)) * time.Millisecond
	q.inert("Description", "IntegrationMethod", "PassthroughBehavior")
	// The IntegrationUri of an HTTP API can also be the ARN of the function itself.
	if uri := q.text("IntegrationUri"); strings.HasPrefix(uri, functionARN("")) {
		i.function, i.known = d.function(q, "IntegrationUri", uri)
	} else {
		i.function, i.known = d.invokedFunction(q, "IntegrationUri")
	}
	return i
}

func (d *parser) readRoute(api *HTTP, integrations map[string]httpIntegration, q *properties) {
	key, target := q.required("RouteKey"), q.required("Target")
	q.only("ApiKeyRequired", "false: HTTP APIs have no API keys", false)
	q.only("AuthorizationType", "NONE: this gateway has no authorizers for HTTP APIs", "NONE")
	q.inert("OperationName")
	route, ok := parseRouteKey(key)
	if !ok && key != "" {
		q.refuse("RouteKey", key, "a method and a path, or "+DefaultKey)
	}
	id, found := strings.CutPrefix(target, "integrations/")
	i, known := integrations[id]
	if target != "" && (!found || !known || i.api != api) {
		q.refuse("Target", target, "integrations/ and a Ref to an integration of this API")
	}
	if api == nil || !ok {
		return
	}
	route.Function, route.Timeout, route.Throttle = i.function.ID, i.timeout, api.throttle
	if i.known {
		d.checkPermission(apiPrincipal, q, i.function, api.arn(route))
	}
	switch {
	case slices.ContainsFunc(api.Routes, route.same), key == DefaultKey && api.Default != nil:
		q.refuse("RouteKey", key, "a key that "+api.ID+" does not have yet")
	case key == DefaultKey:
		api.Default = route
	default:
		api.Routes = append(api.Routes, route)
	}
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

// arn returns the ARN of a route for permissions. CDK writes parameters as {name} in it, and AWS
// accepts that.
func (a *HTTP) arn(r *Route) string {
	path := "/" + DefaultKey
	if _, declared, ok := strings.Cut(r.Key, " "); ok {
		path = "/" + r.Method + declared
	}
	return arn("execute-api", a.ID+"/"+a.Stage+path)
}
