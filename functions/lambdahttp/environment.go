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
	m := &httplimit.Middleware{
		Limiter:  e.Limiter,
		Charges:  e.Rules.Charges,
		Identify: e.identify,
		MaxDelay: e.MaxDelay,
		Observe:  e.observe,
		Clock:    e.Clock,
		Logger:   e.Logger,
	}
	limited := m.Wrap(api)
	return e.shared(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := originOf(r.Context())
		switch {
		case from.malformed && !from.decided:
			e.observeMalformed(r.Context(), e.Clock(), from.address)
			fallthrough
		case from.malformed:
			httplimit.MalformedPath().Refuse(w)
			return
		case !from.decided:
			defer e.Rules.Settle()
			limited.ServeHTTP(w, r)
			return
		}
		for name, value := range from.fields {
			w.Header().Set(name, value)
		}
		api.ServeHTTP(w, r)
	}))
}

// observe tells of a request what was decided.
func (e *Environment) observe(now time.Time, took time.Duration, from caller.Caller, d limiter.Decision, err error) {
	e.Recorder.Record(now, took, from, d, err)
	e.Events.Record(now, took, from, d, err)
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

// observeMalformed records a request that came at now and whose path is malformed, which is refused without being
// charged, and returns its caller, who is known by the address alone.
func (e *Environment) observeMalformed(ctx context.Context, now time.Time, address netip.Addr) caller.Caller {
	from, _ := e.Identifier.Caller(ctx, now, caller.Credentials{Address: address}) // a missing credential does not matter here
	e.observe(now, 0, from, limiter.Decision{At: now}, nil)
	return from
}

// origin is what a host says of a request, beside the request itself.
type origin struct {
	address netip.Addr        // of the client; zero if the request came by net/http
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

// identify returns the caller of a request that no authorizer has seen. The address
// is the host's word, or without a host in between the peer's.
func (e *Environment) identify(r *http.Request, now time.Time) (caller.Caller, error) {
	e.Events.Begin(now) // goes on beside the store call
	address := originOf(r.Context()).address
	if !address.IsValid() {
		address = caller.ParseAddress(r.RemoteAddr)
	}
	return e.Identifier.Caller(r.Context(), now, credentials(r.Header, address))
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
