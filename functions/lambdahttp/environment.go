package lambdahttp

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/rs/cors"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Environment is what a Lambda execution environment builds once and uses for every request. Package
// boot returns a complete one. Do not change its fields after the first request; it is then safe
// for concurrent use.
type Environment struct {
	Limiter *limiter.Limiter
	// Rules are the rules in force. A request uses one version of them from start to end. At its
	// end it waits for a reload that it has started.
	Rules      *live.Rules
	Identifier *caller.Identifier
	// Clock is read once per request.
	Clock  func() time.Time
	Logger *slog.Logger
	// Recorder records every request that this environment decides. It does not record a request
	// that an authorizer has decided. nil records nothing.
	Recorder *telemetry.Recorder
	// Events publishes the same requests; nil publishes nothing.
	Events *decisionlog.Publisher
	// BasePath is the path that a custom domain puts before every path, such as "/v1", in the
	// normal form of rules; empty: none. Rules do not see it. Paths from API Gateway's own domain,
	// a load balancer or net/http do not have it and stay unchanged.
	BasePath string
	// MaxDelay is how long a request that no authorizer has admitted may wait for its turn in a leaky
	// bucket.
	MaxDelay time.Duration
	// CORSOrigins are the origins whose pages may read answers, such as "https://app.example.com", or
	// "*" alone; empty: no other origin.
	CORSOrigins []string
	// SampleLogin is the user:password of the login of the sample API; empty: no login succeeds.
	SampleLogin string
}

// Serve returns api as every host runs it: with the path that was charged, and behind the limits
// unless an authorizer has already decided. With CORSOrigins every answer has the CORS headers,
// also a refusal, and preflights are answered without a limit. An api that varies by other
// request headers adds them to Vary.
func (e *Environment) Serve(api http.Handler) http.Handler {
	gate := e.gate()
	return e.cors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := originOf(r.Context())
		switch {
		case !from.decided:
			defer e.Rules.Settle()
			request := httplimit.NewRequest(r)
			request.Malformed = from.malformed
			gate.Serve(w, r, request, api)
		case from.malformed:
			httplimit.MalformedPath().Refuse(w)
		default:
			for name, value := range from.fields {
				w.Header().Set(name, value)
			}
			api.ServeHTTP(w, r)
		}
	}))
}

// gate returns the gate of the environment.
func (e *Environment) gate() *httplimit.Gate {
	return httplimit.New(httplimit.Options{
		Identify: e.identify,
		Charges:  e.Rules.Charges,
		Limiter:  e.Limiter,
		Observe:  e.observe,
		MaxDelay: e.MaxDelay,
		Clock:    e.Clock,
		Logger:   e.Logger,
	})
}

// observe records a decided request in the metrics and the decision log.
func (e *Environment) observe(o outcome.Outcome) {
	e.Recorder.Record(o)
	e.Events.Record(o)
}

// identify returns the caller of a request, and sends decision events beside the store call.
func (e *Environment) identify(ctx context.Context, now time.Time, r httplimit.Request) (caller.Caller, error) {
	e.Events.Begin(now)
	return e.Identifier.Caller(ctx, now, credentials(r.Header, r.Address))
}

// undecided records a request that was not decided because of err, and returns err.
func (e *Environment) undecided(err error) error {
	e.observe(outcome.Outcome{Time: e.Clock(), Err: err})
	return err
}

// cors returns h with CORS headers for the environment's origins. API Gateway adds none to the
// answers of a function.
func (e *Environment) cors(h http.Handler) http.Handler {
	if len(e.CORSOrigins) == 0 {
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: e.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"*"}, // cookies are not allowed, so there is nothing to protect
		ExposedHeaders: httplimit.ExposedFields(),
		MaxAge:         600, // seconds
	}).Handler(h)
}

// basePath returns the path before every path of requests to a domain. API Gateway puts the base path
// there for custom domains only.
func (e *Environment) basePath(domain string) string {
	if !isCustom(domain) {
		return ""
	}
	return e.BasePath
}
