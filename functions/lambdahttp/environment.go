package lambdahttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Environment contains what a Lambda execution environment creates once and uses for every request.
// Package boot returns a complete Environment. It is safe for concurrent use, provided that its fields
// do not change after the first request.
type Environment struct {
	Limiter *limiter.Limiter
	// Rules are the rules in force. A request uses one version of the rules from start to end. Before
	// the answer, a function waits up to 100 ms for a running reload.
	Rules      *live.Rules
	Identifier *caller.Identifier
	// Clock is read once for each request.
	Clock  func() time.Time
	Logger *slog.Logger
	// Recorder records every request that this environment decides, but no request that an
	// authorizer has decided. nil records nothing.
	Recorder *telemetry.Recorder
	// Receipts seals and opens the receipts of requests that an authorizer decides. If it is nil, limits
	// with a count keep their reserve for such requests.
	Receipts *receipts.Ring
	// Viewers finds the addresses of clients behind a distribution or a proxy. nil means the addresses from the host.
	Viewers *origin.Viewers
	// Notices gets the notices in log lines, in the function of NewForward. nil: that function drops them.
	Notices NoticeBus
	// BasePaths are the paths that custom domains add before every path, such as "/v1". They are plain; see
	// rules.Plain. Rules match the path without each base path that it begins with, and a router gets it without the
	// longest. The base path "/" stands for a domain that adds nothing. Paths from API Gateway's default domain, a
	// load balancer or net/http have no base path and stay unchanged.
	BasePaths []string
	// APIKeyHeader is the name of the header field of API keys. "" means x-api-key.
	APIKeyHeader string
	// MaxDelay bounds how long a request waits for its turn in a leaky bucket, as in httplimit.Options.
	// A request that an authorizer has decided does not wait.
	MaxDelay time.Duration
	// CORSOrigins are the origins whose pages may read answers, such as "https://app.example.com".
	// The only element "*" means every origin. Empty means no origin.
	CORSOrigins []string
	// ResponseStream makes a [Layer] stream its answers. A function cannot see whether Lambda streams its
	// answers, and Lambda would send the JSON text of an answer that is not streamed, with status 200, to the
	// client.
	ResponseStream bool
	// AllowBypass lets a function with the layer start although its events do not pass the layer.
	AllowBypass bool
	// SampleLogin is the user:password of the login of the sample API. If it is empty, no login
	// succeeds.
	SampleLogin string
}

// Serve returns an http.Handler that runs api on every host. api receives the path as the host delivers
// it, without the stage and the base path. Serve enforces the limits unless an authorizer has already decided the request. With
// CORSOrigins, every answer has the CORS headers, including refusals, and preflights have no limit. If
// the answers of api vary by other request headers, api must add these to Vary.
func (e *Environment) Serve(api http.Handler) http.Handler {
	gate := e.gate(e.settled)
	return e.cors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := deliveryOf(r.Context())
		if e.Viewers != nil {
			w.Header().Set("Cache-Control", uncollapsed) // api can set another value
		}
		switch {
		case !from.decided:
			defer e.Rules.Wait()
			gate.Serve(w, e.withoutForged(r, from), requestOf(r, from), api)
		case from.malformed:
			httplimit.MalformedPath().Refuse(w)
		default:
			for name, value := range from.fields {
				w.Header().Set(name, value)
			}
			if request := requestOf(r, from); e.Rules.Current().IsUsage(request.Path) && gate.ServeUsage(w, r, request) {
				return
			}
			e.serveDecided(gate, w, httplimit.SetOver(e.withoutForged(r, from), from.over), from.receipt, api)
		}
	}))
}

// uncollapsed is the Cache-Control of answers to a distribution. Without one, CloudFront gives the answer of one client to
// others that wait for the same path, even if it caches nothing: its key has neither the query string nor credentials.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/RequestAndResponseBehaviorCustomOrigin.html#request-custom-traffic-spikes
const uncollapsed = "private, no-store"

// withoutForged returns r without the secret of the distribution, and without a field with an address that is not
// believed: api could believe it.
func (e *Environment) withoutForged(r *http.Request, from delivery) *http.Request {
	if e.Viewers == nil {
		return r
	}
	sent := func(name string) bool { return len(r.Header[name]) > 0 }
	if !slices.ContainsFunc(e.Viewers.Fields(), sent) {
		return r
	}
	request := requestOf(r, from)
	address := e.Viewers.Find(r.Context(), e.Clock(), r.Header, request.Address, request.Appended)
	copied := *r
	copied.Header = r.Header.Clone()
	for _, name := range e.Viewers.Fields() {
		if name == contract.OriginSecretField || address.Problem != "" {
			delete(copied.Header, name)
		}
	}
	return &copied
}

// requestOf returns the parts of r that a Gate needs. Only the event has the path as the host delivers it.
func requestOf(r *http.Request, from delivery) httplimit.Request {
	request := httplimit.NewRequest(r)
	if from.path != nil {
		request.Path, request.Appended = *from.path, true
	}
	return request
}

// gate returns a Gate that decides and settles requests.
func (e *Environment) gate(settled func(telemetry.Settlement)) *httplimit.Gate {
	return httplimit.New(httplimit.Options{
		Identify: e.identify,
		Select:   e.Rules.Select,
		Limiter:  e.Limiter,
		Observe:  e.observe,
		Settled:  settled,
		MaxDelay: e.MaxDelay,
		Clock:    e.Clock,
		Logger:   e.Logger,
	})
}

func (e *Environment) observe(_ context.Context, o telemetry.Outcome) {
	e.Recorder.Record(o)
}

// settled records a settlement in the metrics, and counts its receipt.
func (e *Environment) settled(s telemetry.Settlement) {
	e.Recorder.Settled(s)
	if !s.Voucher {
		return
	}
	switch {
	case errors.Is(s.Err, limiter.ErrVoucherUsed):
		e.Recorder.Receipt(s.Time, telemetry.ReceiptReplayed)
	case errors.Is(s.Err, limiter.ErrVoucherExpired):
		e.Recorder.Receipt(s.Time, telemetry.ReceiptExpired)
	case s.Err == nil:
		e.Recorder.Receipt(s.Time, telemetry.ReceiptSettled)
	}
}

// settledLine records a settlement by a line of an access log. It never counts a receipt as replayed: the Go handler
// may have settled the request before, and CloudWatch Logs may deliver a line twice. If the event fails, it counts no
// lost settlement, because Lambda repeats the event.
func (e *Environment) settledLine(s telemetry.Settlement) {
	if errors.Is(s.Err, limiter.ErrVoucherUsed) {
		s.Voucher = false
	}
	if _, final := reasonOf(s.Err); !final {
		s.Lost = 0
	}
	e.settled(s)
}

// identify returns the caller of a request.
func (e *Environment) identify(ctx context.Context, now time.Time, r httplimit.Request) (caller.Caller, error) {
	credentials := r.Credentials(e.apiKeyHeader())
	if e.Viewers == nil {
		return e.Identifier.Caller(ctx, now, credentials)
	}
	address := e.Viewers.Find(ctx, now, r.Header, r.Address, r.Appended)
	credentials.Address = address.Addr
	refused := address.Refused
	if refused {
		credentials = caller.Credentials{Address: address.Addr} // verifying others could cost a read
	}
	c, err := e.Identifier.Caller(ctx, now, credentials)
	if refused {
		err = caller.ErrDirect
	}
	c.IPFrom, c.Direct, c.IPNotFound = address.String(), address.Direct, address.Problem != "" && !address.Direct
	return c, err
}

func (e *Environment) apiKeyHeader() string {
	if e.APIKeyHeader == "" {
		return defaultAPIKeyHeader
	}
	return http.CanonicalHeaderKey(e.APIKeyHeader)
}

// undecided records a request that was not decided because of err. It returns err.
func (e *Environment) undecided(err error) error {
	e.observe(context.Background(), telemetry.Outcome{Time: e.Clock(), Err: err})
	return err
}

// cors adds CORS headers for the environment's origins to the answers of h. API Gateway adds no
// headers to the answers of a function.
func (e *Environment) cors(h http.Handler) http.Handler {
	if len(e.CORSOrigins) == 0 {
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: e.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"*"}, // requests cannot send cookies, so any header is safe
		ExposedHeaders: httplimit.ExposedFields(),
		MaxAge:         600, // seconds
	}).Handler(h)
}

// awsDomains are the endings of the default domain names of APIs.
var awsDomains = []string{".amazonaws.com", ".amazonaws.com.cn", ".on.aws", ".api.aws"}

// basePaths returns the base paths in requests to a domain. API Gateway keeps the base path in the path only for custom
// domains. On its default domain, /v1/x and /x are different paths. Events of a load balancer have no domain name. Local
// events have the host and the port.
func (e *Environment) basePaths(domain string) []string {
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	ofAWS := func(end string) bool { return strings.HasSuffix(domain, end) }
	if !strings.Contains(domain, ".") || strings.Contains(domain, ":") || slices.ContainsFunc(awsDomains, ofAWS) {
		return nil
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		return nil
	}
	return e.BasePaths
}
