package serve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/gateway"
)

// Upstream is a flag: the URL of the HTTP server that gets the admitted requests. The zero value means none.
type Upstream struct{ url *url.URL }

// String implements pflag.Value.
func (u *Upstream) String() string {
	if u.url == nil {
		return ""
	}
	return u.url.String()
}

// Type implements pflag.Value.
func (u *Upstream) Type() string { return "URL" }

// Set implements pflag.Value.
func (u *Upstream) Set(text string) error {
	parsed, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || parsed.Host == "" || *parsed != (url.URL{Scheme: parsed.Scheme, Host: parsed.Host}) || parsed.Scheme != "http" &&
		parsed.Scheme != "https" {
		return errors.New("want a URL without a path, such as http://127.0.0.1:3000")
	}
	u.url = parsed
	return nil
}

// upstreamNamespace separates the state from other state in the store, as the namespace of a template does.
const upstreamNamespace = "dev"

// identityVariables identify callers. The upstream of a user can have its own issuer of tokens. If JWKS is set but
// empty, the upstream alone reads tokens. Without JWKS, it alone reads those that weir token did not issue.
var identityVariables = []string{"JWKS", "JWT_ISSUER", "JWT_AUDIENCE", "JWT_ALGORITHMS", "USER_CLAIM", "TIER_CLAIM", "CLAIMS"}

// openUpstream returns an API that limits every request and passes it to the upstream.
func (s *Server) openUpstream(ctx context.Context) ([]*gateway.API, error) {
	for _, name := range []string{contract.VariableIdentity, contract.VariableCORSOrigins} {
		s.variables[name] = os.Getenv(name)
	}
	_, own := os.LookupEnv("JWKS")
	if own {
		for _, name := range identityVariables {
			s.variables[name] = os.Getenv(name)
		}
	}
	c, err := s.load(map[string]string{"NAMESPACE": upstreamNamespace})
	if err != nil {
		return nil, err
	}
	store, err := s.openStore(ctx, c)
	if err != nil {
		return nil, err
	}
	e, err := s.environment(ctx, c, store, s.Logger)
	if err != nil {
		return nil, err
	}
	p := newProxy(s.Upstream.url, s.Logger, s.Clock, e.Rules.Current)
	limited := e.Serve(p)
	if !own {
		limited = p.hideForeign(limited)
	}
	return []*gateway.API{gateway.Upstream(limited)}, nil
}

// proxy passes requests to an upstream.
type proxy struct {
	url       *url.URL
	transport http.RoundTripper
	logger    *slog.Logger // one line a second for each message
	notes     *slog.Logger
	clock     func() time.Time
	rules     func() *rules.Rules // those in force
	express   sync.Once           // the note on servers that ignore the case of a path
	foreign   sync.Once           // the note on tokens of another issuer
	missing   atomic.Int64        // time of the last warning of a cost that was not reported, in Unix nanoseconds
}

// dialTimeout bounds how long a request waits for a connection. After that, an answer can take any time.
const dialTimeout = 10 * time.Second

func newProxy(upstream *url.URL, logger *slog.Logger, clock func() time.Time, inForce func() *rules.Rules) *proxy {
	return &proxy{url: upstream, clock: clock, rules: inForce, notes: logger,
		logger: slog.New(telemetry.NewRateLimitedHandler(logger.Handler())), transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
			// otherwise the upstream would get an Accept-Encoding that the client has not sent
			DisableCompression:  true,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Second, // less than servers keep idle connections
			ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxHeader,
		}}
}

// ServeHTTP passes a request to the upstream and its answer to the client. It adds the header fields in w that the
// upstream has not set; see httplimit.Yield.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fields := w.Header().Clone() // informational answers (1xx) clear the header
	clear(w.Header())
	_ = http.NewResponseController(w).EnableFullDuplex() // not supported by recorders in tests
	add := func(h http.Header, status int) {
		httplimit.Yield(fields, status, func(name string) bool { return h[name] != nil })
		for name, values := range fields {
			switch _, set := h[name]; {
			case !set:
				h[name] = values
			case name == "Vary" || name == "Access-Control-Expose-Headers": // lists, to which each server adds
				h[name] = append(h[name], values...)
			}
		}
	}
	(&httputil.ReverseProxy{
		Transport: p.transport, Rewrite: p.rewrite, FlushInterval: -1, ErrorLog: slog.NewLogLogger(p.logger.Handler(), slog.LevelWarn),
		ModifyResponse: func(answer *http.Response) error {
			takeCosts(r.Context(), answer.Header)
			delete(answer.Trailer, limiter.CostField) // the proxy announces those that are left
			p.noteExpress(r.Context(), answer.Header)
			add(answer.Header, answer.StatusCode)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			add(w.Header(), http.StatusBadGateway)
			p.fail(w, r, err)
		},
	}).ServeHTTP(w, r)
	takeCosts(r.Context(), w.Header()) // of the trailer
	p.warnMissing(r.Context())
}

// takeCosts reports the cost field in h, and removes it also if no limit of the request counts it.
func takeCosts(ctx context.Context, h http.Header) {
	httplimit.ReportFields(ctx, h)
	delete(h, limiter.CostField)
	delete(h, http.TrailerPrefix+limiter.CostField)
}

// missingPause is the least time between two warnings of a cost that was not reported.
const missingPause = time.Minute

// warnMissing warns if the upstream has answered the request of ctx, but reported no cost.
func (p *proxy) warnMissing(ctx context.Context) {
	limit := httplimit.Unreported(ctx)
	if limit == nil || ctx.Err() != nil {
		return
	}
	now, last := p.clock(), p.missing.Load()
	if last != 0 && now.Sub(time.Unix(0, last)).Abs() < missingPause || !p.missing.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	p.notes.LogAttrs(ctx, slog.LevelWarn, "the upstream reported no cost, so the reserve stays charged", slog.String("limit", limit.Name),
		slog.String("field", limiter.CostField))
}

// noteExpress logs a note if Express gave an answer with the header h, and another spelling of its path can have other
// limits.
func (p *proxy) noteExpress(ctx context.Context, h http.Header) {
	if h.Get("X-Powered-By") == "Express" && p.rules().CaseMatters() {
		p.express.Do(func() {
			p.notes.WarnContext(ctx, `Express ignores the case of a path, so /API can bypass the rules for /api; add "ignore_case": true to the `+
				`rules document`)
		})
	}
}

// foreignToken is the key of an Authorization field that hideForeign has hidden.
type foreignToken struct{}

// hideForeign hides bearer tokens of other issuers than weir token from h, which would answer 401, until rewrite restores
// them. Their callers count by address.
func (p *proxy) hideForeign(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if field := r.Header["Authorization"]; len(field) == 1 && isForeign(field[0]) {
			p.foreign.Do(func() {
				p.notes.WarnContext(r.Context(), "bearer tokens that weir token did not issue pass unverified, so their callers count by address; "+
					"set JWKS, JWT_ISSUER and JWT_AUDIENCE to count by user")
			})
			r = r.WithContext(context.WithValue(r.Context(), foreignToken{}, field)) // a clone would have no trailers
			r.Header = r.Header.Clone()
			r.Header.Del("Authorization")
		}
		h.ServeHTTP(w, r)
	})
}

// isForeign reports whether an Authorization field has a bearer token that does not name the issuer of weir token.
func isForeign(field string) bool {
	scheme, token, _ := strings.Cut(field, " ")
	if caller.IsBare(field) {
		token = field
	} else if !strings.EqualFold(scheme, "bearer") {
		return false
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return true
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err != nil || json.Unmarshal(payload, &claims) != nil || claims.Issuer != checkout.Issuer
}

// rewrite directs a request to the upstream. Path, query and Host stay as the client sent them, but an https server
// gets its own Host. X-Forwarded-For gets the address of the client.
//
// Only an upgrade to a WebSocket passes: through another protocol, such as h2c, a client could send requests that nobody
// counts. Fields with an underscore do not pass, because WSGI reads X_Api_Key as X-Api-Key.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.RawQuery = p.url.Scheme, p.url.Host, r.In.URL.RawQuery
	if len(r.In.Trailer) > 0 && r.Out.Body != nil {
		r.Out.Trailer = http.Header{}
		for name := range r.In.Trailer {
			if passes(name) && !p.rules().Reads(http.CanonicalHeaderKey(name)) {
				r.Out.Trailer[name] = nil
			}
		}
		r.Out.Body = &trailed{r.Out.Body, r.In.Trailer, r.Out.Trailer}
	}
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	if token, hidden := r.In.Context().Value(foreignToken{}).([]string); hidden {
		r.Out.Header["Authorization"] = token
	}
	// The first three are of a proxy before this one. A client can declare the last one as hop-by-hop.
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto", httplimit.OverField} {
		if values, sent := r.In.Header[name]; sent {
			r.Out.Header[name] = values
		}
	}
	if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	maps.DeleteFunc(r.Out.Header, func(name string, _ []string) bool { return strings.Contains(name, "_") })
	if p.url.Scheme == "https" {
		r.Out.Host = ""
	}
}

// trailed is a body whose end fills the trailer that the upstream gets. net/http adds fields to the client's trailer that
// the client has not announced.
type trailed struct {
	io.ReadCloser
	sent, passed http.Header
}

func (t *trailed) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err == io.EOF {
		for name := range t.passed {
			t.passed[name] = t.sent[name]
		}
	}
	return n, err
}

// passes reports whether a client may send a field in a trailer: servers merge trailers with the header that the limits
// were decided by.
func passes(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Cookie", "X-Api-Key", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", httplimit.OverField:
		return false
	}
	canonical := http.CanonicalHeaderKey(name)
	return !strings.Contains(name, "_") && !strings.HasPrefix(canonical, "Weir-") && !strings.HasPrefix(canonical, "Mcp-")
}

// fail answers 502, and logs err, which names the upstream. If the client has left, it logs nothing, and the request is no failure of the
// upstream.
func (p *proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		w.WriteHeader(httplimit.StatusClientLeft)
		return
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" { // the upstream did no work
		httplimit.ReportFields(r.Context(), http.Header{limiter.CostField: {"0"}})
	}
	p.logger.LogAttrs(r.Context(), slog.LevelError, "the upstream gave no answer", slog.String("upstream", p.url.String()),
		slog.Any("err", err))
	httplimit.Answer{Problem: &httplimit.Problem{
		Type: "about:blank", Title: http.StatusText(http.StatusBadGateway), Status: http.StatusBadGateway, Error: "upstream_failed",
		Message: "The upstream gave no answer. The log has the reason.",
	}}.Refuse(w)
}
