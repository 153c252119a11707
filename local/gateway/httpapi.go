package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// maxHTTPTimeout is how long an HTTP API waits for an integration.
const maxHTTPTimeout = 30 * time.Second

// defaultKey is both the stage that stands in no URL and the route for whatever has no
// other.
const defaultKey = "$default"

// httpAPI is an HTTP API as a template declares it.
type httpAPI struct {
	id, name  string
	stage     string
	variables map[string]string // of the stage
	throttle  algo.Machine      // of the stage: each route has a bucket like it
	cors      *cors             // nil for none
	routes    []*httpRoute
	fallback  *httpRoute // $default, nil for none
}

// httpRoute is a route with its integration.
type httpRoute struct {
	key      string // as "GET /pets/{id}"
	method   string
	path     []segment
	function string // logical id
	timeout  time.Duration
	throttle *throttle
}

// httpIntegration is what a route's Target names.
type httpIntegration struct {
	api      *httpAPI
	function Function
	known    bool // whether the function is
	timeout  time.Duration
}

// readHTTPAPIs reads the HTTP APIs and what belongs to them.
func (d *declarations) readHTTPAPIs() {
	apis := map[string]*httpAPI{}
	d.each("AWS::ApiGatewayV2::Api", func(id string, q *properties) {
		if kind := q.text("ProtocolType"); kind != "HTTP" {
			q.refuse("ProtocolType", kind, "HTTP")
		}
		q.only("RouteSelectionExpression", "the only one that HTTP APIs have", "$request.method $request.path",
			"${request.method} ${request.path}")
		q.only("DisableExecuteApiEndpoint", "false: there is no other endpoint here", false)
		apis[id] = &httpAPI{id: id, name: q.text("Name"), cors: readCORS(q)}
		q.inert("Description", "FailOnWarnings", "IpAddressType", "Tags")
		d.template.http = append(d.template.http, apis[id])
	})
	owner := func(q *properties) *httpAPI {
		id := q.required("ApiId")
		if id != "" && apis[id] == nil {
			q.refuse("ApiId", id, "a Ref to an HTTP API of this template")
		}
		return apis[id]
	}
	d.each("AWS::ApiGatewayV2::Stage", func(_ string, q *properties) { d.readHTTPStage(owner(q), q) })
	integrations := map[string]httpIntegration{}
	d.each("AWS::ApiGatewayV2::Integration", func(id string, q *properties) {
		integrations[id] = d.readHTTPIntegration(owner(q), q)
	})
	d.each("AWS::ApiGatewayV2::Route", func(_ string, q *properties) { d.readRoute(owner(q), integrations, q) })
	for _, api := range d.template.http {
		if api.stage == "" {
			d.p.add("Resources."+api.id, "no AWS::ApiGatewayV2::Stage: it is not deployed")
		}
	}
}

func (d *declarations) readHTTPStage(api *httpAPI, q *properties) {
	name, variables := q.required("StageName"), q.textMap("StageVariables")
	q.only("AutoDeploy", "true: nothing else deploys it", true)
	if !q.has("AutoDeploy") && !q.has("DeploymentId") {
		d.p.add(q.at("AutoDeploy"), "missing: nothing else deploys it")
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
	if api.stage != "" {
		d.p.add(q.path, "a second stage of %s: no local URL would tell it from %s", api.id, api.stage)
	}
	api.stage, api.variables, api.throttle = name, variables, bucket
}

func (d *declarations) readHTTPIntegration(api *httpAPI, q *properties) httpIntegration {
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
	// An HTTP API takes the function's own ARN too.
	if uri := q.text("IntegrationUri"); strings.HasPrefix(uri, functionARN("")) {
		i.function, i.known = d.function(q, "IntegrationUri", uri)
	} else {
		i.function, i.known = d.invokedFunction(q, "IntegrationUri")
	}
	return i
}

func (d *declarations) readRoute(api *httpAPI, integrations map[string]httpIntegration, q *properties) {
	key, target := q.required("RouteKey"), q.required("Target")
	q.only("ApiKeyRequired", "false: HTTP APIs have none", false)
	q.only("AuthorizationType", "NONE: this gateway has no authorizers for HTTP APIs", "NONE")
	q.inert("OperationName")
	route, ok := parseRouteKey(key)
	if !ok && key != "" {
		q.refuse("RouteKey", key, "a method and a path, or "+defaultKey)
	}
	id, found := strings.CutPrefix(target, "integrations/")
	i, known := integrations[id]
	if target != "" && (!found || !known || i.api != api) {
		q.refuse("Target", target, "integrations/ and a Ref to an integration of this API")
	}
	if api == nil || !ok {
		return
	}
	route.function, route.timeout, route.throttle = i.function.ID, i.timeout, newThrottle(api.throttle)
	if i.known {
		d.checkPermission(strings.TrimSuffix(q.path, ".Properties"), i.function, api.arn(route))
	}
	switch {
	case slices.ContainsFunc(api.routes, route.same), key == defaultKey && api.fallback != nil:
		q.refuse("RouteKey", key, "a key that "+api.id+" does not have yet")
	case key == defaultKey:
		api.fallback = route
	default:
		api.routes = append(api.routes, route)
	}
}

func parseRouteKey(key string) (*httpRoute, bool) {
	if key == defaultKey {
		return &httpRoute{key: key}, true
	}
	method, path, ok := strings.Cut(key, " ")
	if !ok || !slices.Contains(verbs, method) || !strings.HasPrefix(path, "/") {
		return nil, false
	}
	route := &httpRoute{key: key, method: method}
	parts := splitPath(path)
	for i, part := range parts {
		s, ok := parseSegment(part)
		if !ok || s.kind == greedy && i < len(parts)-1 {
			return nil, false
		}
		route.path = append(route.path, s)
	}
	return route, true
}

// same reports whether no request could tell two routes apart.
func (r *httpRoute) same(other *httpRoute) bool {
	alike := func(a, b segment) bool { return a.kind == b.kind && (a.kind != literal || a.text == b.text) }
	return r.method == other.method && slices.EqualFunc(r.path, other.path, alike)
}

// arn is what a permission calls a route. CDK leaves parameters as they are declared, and
// that works.
func (a *httpAPI) arn(r *httpRoute) string {
	path := "/" + defaultKey
	if _, declared, ok := strings.Cut(r.key, " "); ok {
		path = "/" + r.method + declared
	}
	return arn("execute-api", a.id+"/"+a.stage+path)
}
