package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/limiter/rules"
)

// Options configures a Gateway. The Handler has no default.
type Options struct {
	// Authorizer and Handler are the functions, which run concurrently. Those of lambda.NewHandler do not work here: each
	// invocation overwrites the previous answer. Without an Authorizer, the REST API asks none.
	Authorizer, Handler lambda.Handler
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

// Kind is a kind of API.
type Kind string

// The kinds of APIs.
const (
	REST Kind = "REST" // AWS::ApiGateway::RestApi
	HTTP Kind = "HTTP" // AWS::ApiGatewayV2::Api
)

// API is one API. It serves HTTP without the stage in the URL, and is safe for concurrent use.
type API struct {
	Kind Kind
	// Routes are the routes of the API, sorted by path.
	Routes []Route

	handler handler
}

type handler interface {
	http.Handler
	// routes reports whether a route matches the method and the path of a request.
	routes(method, path string) bool
}

// Serves reports whether a route matches the method of a request and its path as a client sends it. Otherwise the gateway
// answers without a function: 403 or, for an HTTP API, 404.
func (a *API) Serves(method, path string) bool { return a.handler.routes(method, path) }

// ServeHTTP answers a request as API Gateway answers a request to this API.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// New returns the REST API and the HTTP API of a stack with these routes, such as "GET /items/{id}". The error names a route
// that an API cannot have.
func New(s *Stack, routes []string, o Options) ([]*API, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	both := &runtime{Options: o, stack: s}
	rest, err := both.parseRoutes(routes, s.REST)
	if err != nil {
		return nil, err
	}
	web, err := both.parseRoutes(routes, s.HTTP)
	var listed []Route
	for _, r := range web {
		listed = append(listed, r.Route)
	}
	return []*API{{REST, listed, &restHandler{both, rest}}, {HTTP, listed, &httpHandler{both, web}}}, err
}

// DefaultRoute is the path of the route of an HTTP API that gets every request.
const DefaultRoute = "$default"

// Upstream returns an API that passes every request to h. Its only route is the one of an HTTP API without
// other routes.
func Upstream(h http.Handler) *API {
	return &API{Kind: HTTP, Routes: []Route{{Method: "ANY", Path: DefaultRoute}}, handler: upstream{h}}
}

type upstream struct{ http.Handler }

func (upstream) routes(string, string) bool { return true }

// runtime is what both APIs share.
type runtime struct {
	Options

	stack *Stack
}

// parseRoutes parses the routes of an API. Each one has a throttle of its own.
func (t *runtime) parseRoutes(keys []string, s Stage) ([]*route, error) {
	routes, err := parseRoutes(keys)
	for _, r := range routes {
		if !t.Unthrottled && s.Throttle != nil {
			r.throttle = &throttle{bucket: s.Throttle}
		}
	}
	return routes, err
}

// unmapped returns the path of a request without the longest base path, if the request comes from a custom domain. Events
// keep the base path (developer guide, "API mappings").
func (t *runtime) unmapped(host, path string) string {
	if strings.Contains(host, ":") {
		return path
	}
	return rules.TrimPrefix(path, t.BasePaths)
}

// log logs why a function gave no answer.
func (t *runtime) log(ctx context.Context, function, request string, err error) {
	t.Logger.LogAttrs(ctx, slog.LevelError, function+" failed", slog.String("request", request), slog.Any("err", err))
}
