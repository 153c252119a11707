package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/gateway/template"
)

// Options configures a Gateway. Only Functions has no default.
type Options struct {
	// Functions has the handlers of the template's functions, by logical id. Every function that an
	// API invokes needs a handler. Handlers run concurrently, so those of lambda.NewHandler do not work here: each invocation
	// overwrites the previous answer.
	Functions map[string]lambda.Handler
	// Logger gets one line for each failed invocation. nil means slog.Default().
	Logger *slog.Logger
	// Clock returns the time of a request. It also measures the latency of an authorizer. nil means
	// time.Now. Timeouts always use the real clock.
	Clock func() time.Time
	// BasePaths are the paths that the mappings of custom domains add, such as "/v1". A request whose Host has no port
	// comes from a custom domain.
	BasePaths []string
	// Unthrottled leaves out the throttles of the stages.
	Unthrottled bool
}

// Gateway serves the APIs of a template and invokes their functions. It is safe for concurrent use.
// Create one with New.
type Gateway struct{ apis []*API }

// Kind is a kind of API.
type Kind string

// The kinds of APIs.
const (
	REST Kind = "REST" // AWS::ApiGateway::RestApi
	HTTP Kind = "HTTP" // AWS::ApiGatewayV2::Api
)

// API is one API of a template. It serves HTTP without the stage in the URL.
type API struct {
	Kind Kind
	// ID is the logical id in the template. Name is the name of the API.
	ID, Name string
	// Routes are the routes of the API, sorted by path.
	Routes []Route

	handler handler
}

type handler interface {
	http.Handler
	// routes reports whether a route matches the method and the path of a request.
	routes(method, path string) bool
}

// Route is a method of a REST API or a route of an HTTP API.
type Route struct {
	// Method is an HTTP method or ANY. Path has parameters as {name} or {name+}. The path of
	// the $default route is "$default".
	Method, Path string
	// Function and Authorizer are the logical ids of the invoked functions. Authorizer is empty if the route has none.
	Function, Authorizer string
}

// Serves reports whether a route matches the method of a request and its path as a client sends it. Otherwise the gateway
// answers without a function: 403 or, for an HTTP API, 404.
func (a *API) Serves(method, path string) bool { return a.handler.routes(method, path) }

// ServeHTTP answers a request as API Gateway answers a request to this API.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// New returns the gateway of a template. The error names a function that has no handler.
func New(t *template.Template, o Options) (*Gateway, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	shared := &runtime{functions: map[string]*function{}, clock: o.Clock, logger: o.Logger, basePaths: o.BasePaths, unthrottled: o.Unthrottled}
	for _, f := range t.Functions() {
		if handler := o.Functions[f.ID]; handler != nil {
			shared.functions[f.ID] = &function{f, handler}
		}
	}
	g := &Gateway{}
	if api := t.REST; api != nil {
		g.apis = append(g.apis, &API{REST, api.ID, api.Name, restRoutes(api), newRESTHandler(shared, api)})
	}
	if api := t.HTTP; api != nil {
		g.apis = append(g.apis, &API{HTTP, api.ID, api.Name, httpRoutes(api), newHTTPHandler(shared, api)})
	}
	if err := g.checkFunctions(shared); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gateway) checkFunctions(shared *runtime) error {
	for _, api := range g.apis {
		for _, route := range api.Routes {
			for _, id := range []string{route.Function, route.Authorizer} {
				if id != "" && shared.functions[id] == nil {
					return fmt.Errorf("template: function %s: no handler, and %s %s of %s invokes it", id, route.Method, route.Path, api.ID)
				}
			}
		}
	}
	return nil
}

// APIs returns the APIs of the template: the REST API, then the HTTP API.
func (g *Gateway) APIs() []*API { return slices.Clone(g.apis) }

// Upstream returns an API that passes every request to h. Its only route is the one of an HTTP API without
// other routes.
func Upstream(h http.Handler) *API {
	return &API{Kind: HTTP, Routes: []Route{{Method: "ANY", Path: "$default"}}, handler: upstream{h}}
}

type upstream struct{ http.Handler }

func (upstream) routes(string, string) bool { return true }

// runtime is the state that all APIs of a gateway share.
type runtime struct {
	functions map[string]*function // key: logical id
	clock     func() time.Time
	logger    *slog.Logger
	basePaths []string

	unthrottled bool
}

// unmapped returns the path of a request without the longest base path, if the request comes from a custom domain. Events
// keep the base path (developer guide, "API mappings").
func (t *runtime) unmapped(host, path string) string {
	if strings.Contains(host, ":") {
		return path
	}
	return rules.TrimPrefix(path, t.basePaths)
}

func (t *runtime) invoke(ctx context.Context, id string, event any, limit time.Duration) ([]byte, error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	return t.functions[id].invoke(ctx, payload, limit)
}

// log logs why a function gave no answer.
func (t *runtime) log(ctx context.Context, message, function, request string, err error) {
	t.logger.LogAttrs(ctx, slog.LevelError, message,
		slog.String("function", function), slog.String("request", request), slog.Any("err", err))
}
