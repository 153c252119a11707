package lambdahttp

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
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

// Environment is what a function has built once and uses for every request. Its
// fields are set before the first request and not changed; it is then safe for
// concurrent use.
type Environment struct {
	Limiter *limiter.Limiter
	// Rules are those in force. A request has one version of them from its start to its end,
	// and waits at its end for a reading that it has begun.
	Rules      *live.Rules
	Identifier *caller.Identifier
	// Clock is read once per request.
	Clock  func() time.Time
	Logger *slog.Logger
	// Recorder is told of every request that is decided here, and not of those that an
	// authorizer has decided; nil records nothing.
	Recorder *telemetry.Recorder
	// Events is told of the same requests; nil sends none.
	Events *decisionlog.Publisher
	// BasePath is what a custom domain puts before every path, such as "/v1", in the normal
	// form of rules, which do not see it. Empty if there is none. By the domain of API
	// Gateway, a load balancer or net/http paths come without it, and are left as they are.
	BasePath string
	// MaxDelay is how long a request that no authorizer has admitted may wait for its
	// turn in a leaky bucket.
	MaxDelay time.Duration
	// CORSOrigins are the origins whose pages may read the answers, such as
	// "https://app.example.com", or "*" alone. Empty: none but the API's own.
	CORSOrigins []string
	// SampleLogin is the user:password that the sample API's login knows; empty: none.
	SampleLogin string
}

// Serve returns api as every host runs it: behind the limits, unless an authorizer
// has been asked already, and with the path that was charged. Where
// pages of other origins are let in, each answer says so, refusals too, and a preflight is
// answered without being limited. An api that varies by other fields adds them to Vary.
func (e *Environment) Serve(api http.Handler) http.Handler {
	gate := e.gate()
	return e.shared(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// shared returns h as pages of the environment's origins may use it. A REST API adds
// nothing to what a function answers, so the function has to say it.
func (e *Environment) shared(h http.Handler) http.Handler {
	if len(e.CORSOrigins) == 0 {
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: e.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"*"}, // there are no cookies to protect: credentials are not allowed
		ExposedHeaders: httplimit.ExposedFields(),
		MaxAge:         600, // seconds
	}).Handler(h)
}

// basePath returns what comes before every path of a request to a domain: API Gateway puts
// the base path there for a custom domain alone.
func (e *Environment) basePath(domain string) string {
	if !isCustom(domain) {
		return ""
	}
	return e.BasePath
}

// origin is what a host says of a request, beside the request itself.
type origin struct {
	decided bool              // the authorizer has charged the request and allowed it
	fields  map[string]string // header fields of its decision; there may be none
	// malformed says that the path has no reading: the request's URL is not that of the client.
	malformed bool
}

type originKey struct{}

func withOrigin(ctx context.Context, o origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

func originOf(ctx context.Context) origin {
	o, _ := ctx.Value(originKey{}).(origin)
	return o
}

// credentials returns those of a request. A header that comes twice is joined, which
// makes it invalid: whoever reads the other one must not be told another caller.
func credentials(h http.Header, address netip.Addr) caller.Credentials {
	return caller.Credentials{
		Authorization: strings.Join(h["Authorization"], ", "),
		APIKey:        strings.Join(h["X-Api-Key"], ", "),
		Address:       address,
	}
}
