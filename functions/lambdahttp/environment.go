package lambdahttp

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Environment contains what a Lambda execution environment creates once and uses for every request.
// Package boot returns a complete Environment. It is safe for concurrent use, provided that its fields
// do not change after the first request.
type Environment struct {
	Limiter *limiter.Limiter
	// Rules are the rules in force. Before the answer, a function waits up to 100 ms for a running reload.
	Rules      *live.Rules
	Identifier *caller.Identifier
	// Clock is read once for each request.
	Clock  func() time.Time
	Logger *slog.Logger
	// Recorder records every request that this environment decides, but no request that an
	// authorizer has decided. nil records nothing.
	Recorder *telemetry.Recorder
	// MACs makes and verifies what functions of the deployment write for each other. If it is nil, a foreign back end
	// cannot report costs.
	MACs *mac.Ring
	// WeirBehind reports that the handler or the layer answers what the authorizer admits. The authorizer then leaves
	// limits with a count to them. Otherwise it looks at these limits, and the back end reports the costs.
	WeirBehind bool
	// BehindAuthorizer reports that Weir's authorizer is in front of a REST API. The handler and the layer then believe the
	// decision in the context of its events. Another authorizer could write such a context, too.
	BehindAuthorizer bool
	// Host names what identifies callers in the context of an event, where the host has verified them: claims of a token,
	// or values of the owner's Lambda authorizer. Tokens in fields are then not read. A request whose host verifies nobody
	// gets 503. nil means that the fields of a request identify its caller.
	Host *caller.ClaimNames
	// Viewers finds the addresses of clients behind a distribution or a proxy. nil means the addresses from the host.
	Viewers *viewer.Finder
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
}

// Serve returns an http.Handler that runs api on every host. api receives the path as the host delivers
// it, without the stage and the base path. Serve enforces the limits. If an authorizer has already decided the request, these
// are only those with a count. With
// CORSOrigins, every answer has the CORS headers, including refusals, and preflights have no limit. If
// the answers of api vary by other request headers, api must add these to Vary.
func (e *Environment) Serve(api http.Handler) http.Handler {
	gate := e.gate(nil)
	counts := e.countsGate()
	return httplimit.CORS(e.CORSOrigins, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := deliveryOf(r.Context())
		if e.Viewers != nil {
			w.Header().Set("Cache-Control", uncollapsed) // api can set another value
		}
		switch {
		case !from.decided:
			defer e.Rules.Wait()
			gate.Serve(w, e.withoutForged(r, from), requestOf(r, from), api)
		case from.malformed:
			e.malformed().Refuse(w)
		default:
			defer e.Rules.Wait()
			request, current, next := requestOf(r, from), e.Rules.At(r.Context(), e.Clock()), decided{from, api}
			if current.IsUsage(request.Path) {
				from.answer.SetHeader(w.Header())
				if gate.ServeUsage(w, r, request) {
					return
				}
			}
			r = e.withoutForged(r, from)
			if len(current.Counts()) > 0 || current.Calls() {
				counts.Serve(w, r, request, next)
			} else {
				next.ServeHTTP(w, httplimit.SetOver(r, ""))
			}
		}
	}))
}

// malformed returns the answer to a request whose path no URL can have.
func (e *Environment) malformed() httplimit.Answer {
	a := httplimit.MalformedPath()
	a.Refusal = e.Rules.Current().Refusal()
	return a
}

// uncollapsed is the Cache-Control of answers to a distribution. Without one, CloudFront gives the answer of one client to
// others that wait for the same path, even if it caches nothing: its key has neither the query string nor credentials.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/RequestAndResponseBehaviorCustomOrigin.html
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
	address := e.Viewers.Find(r.Context(), r.Header, request.Address, request.Appended)
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

// gate returns a Gate that decides and settles requests. adjust changes its options, unless it is nil.
func (e *Environment) gate(adjust func(*httplimit.Options)) *httplimit.Gate {
	o := httplimit.Options{
		Identify: e.identify,
		Select:   e.Rules.Select,
		Limiter:  e.Limiter,
		Observe:  func(_ context.Context, outcome telemetry.Outcome) { e.Recorder.Record(outcome) },
		Settled:  e.Recorder.Settled,
		MaxDelay: e.MaxDelay,
		Clock:    e.Clock,
		Logger:   e.Logger,
	}
	if adjust != nil {
		adjust(&o)
	}
	return httplimit.New(o)
}

// countsGate returns the Gate behind an authorizer. It charges only the limits with a count. It records what it refuses,
// because the authorizer has recorded the request as allowed.
func (e *Environment) countsGate() *httplimit.Gate {
	return e.gate(func(o *httplimit.Options) {
		o.Select = e.selecting(withCounts)
		o.Observe = func(_ context.Context, outcome telemetry.Outcome) {
			if outcome.Class() != telemetry.ClassAllowed {
				e.Recorder.Record(outcome)
			}
		}
	})
}

const withCounts, withoutCounts = true, false // arguments of selecting

// selecting returns a function like Rules.Select that selects only limits with a count, or only the others.
func (e *Environment) selecting(counts bool) func(context.Context, time.Time, rules.Request) rules.Selection {
	return func(ctx context.Context, now time.Time, r rules.Request) rules.Selection {
		s := e.Rules.Select(ctx, now, r)
		s.Charges = slices.DeleteFunc(s.Charges, func(c limiter.Charge) bool { return c.Limit.Count.Settles() != counts })
		return s
	}
}

// decided is the api behind an authorizer and the Gate of the limits with a count.
type decided struct {
	from delivery
	api  http.Handler
}

// ServeHTTP reports the decision with less remaining.
func (d decided) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if over := d.from.answer.Over; over != "" {
		r = httplimit.SetOver(r, over)
	}
	own, err := strconv.ParseInt(w.Header().Get(httplimit.RemainingField), 10, 64)
	if remaining, none := strconv.ParseInt(d.from.answer.Remaining, 10, 64); err != nil || none == nil && remaining < own {
		for name := range fieldKeys {
			w.Header().Del(name)
		}
		d.from.answer.Serve(w, r, d.api)
		return
	}
	d.api.ServeHTTP(w, r)
}

// identify returns the caller of a request.
func (e *Environment) identify(ctx context.Context, now time.Time, r httplimit.Request) (c caller.Caller, err error) {
	credentials := r.Credentials(e.apiKeyHeader())
	var address viewer.Address
	if e.Viewers != nil {
		address = e.Viewers.Find(ctx, r.Header, r.Address, r.Appended)
		credentials.Address = address.Addr
	}
	var nobody error
	if e.Host != nil {
		credentials.Authorization = ""
		credentials.Verified, nobody = deliveryOf(ctx).event.verified(*e.Host)
	}
	c, err = e.Identifier.Caller(ctx, now, credentials)
	if nobody != nil {
		c, err = caller.Caller{IP: c.IP, Rejected: true, Unverified: true}, nobody
	}
	if e.Viewers != nil {
		c.IPFrom, c.IPNotFound = address.String(), address.Problem != ""
	}
	return c, err
}

func (e *Environment) apiKeyHeader() string {
	return http.CanonicalHeaderKey(cmp.Or(e.APIKeyHeader, defaultAPIKeyHeader))
}

// undecided records a request that was not decided because of err. It returns err.
func (e *Environment) undecided(err error) error {
	e.Recorder.Record(telemetry.Outcome{Time: e.Clock(), Err: err})
	return err
}

// awsDomains are the endings of the default domain names of APIs.
var awsDomains = []string{".amazonaws.com", ".amazonaws.com.cn", ".on.aws", ".api.aws"}

// basePaths returns the base paths in requests to a domain. API Gateway keeps the base path in the path only for custom
// domains, with which a client can send a port. On its default domain, /v1/x and /x are different paths. Events of a load
// balancer have no domain name.
func (e *Environment) basePaths(domain string) []string {
	if host, _, err := net.SplitHostPort(domain); err == nil {
		domain = host
	}
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	ofAWS := func(end string) bool { return strings.HasSuffix(domain, end) }
	if !strings.Contains(domain, ".") || slices.ContainsFunc(awsDomains, ofAWS) {
		return nil
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		return nil
	}
	return e.BasePaths
}
