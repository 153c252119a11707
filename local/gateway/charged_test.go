package gateway_test

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// endpoints lists the patterns of the back end's ServeMux, each with the limit that charges its
// requests. Each path matches at most one rule.
var endpoints = []struct{ pattern, limit string }{
	{"GET /api/v1/search", "search"},
	{"POST /api/v1/data", "data"},
	{"GET /api/v1/items/{id}", "items"},
	{"/api/v1/q", "q"},
	{"/api/v1/files", "files"}, {"/api/v1/files/{rest...}", "files"},
	{"/t/{a}/{b}", "two"},
	{"/{$}", "root"},
}

const endpointRules = `{"rules":[
	{"endpoint":"/api/v1/search","method":"GET","limits":{"*":{"name":"search","requests":60,"window":"1m"}}},
	{"endpoint":"/api/v1/data","method":"POST","limits":{"*":{"name":"data","requests":60,"window":"1m"}}},
	{"endpoint":"/api/v1/items/{id}","method":"GET","limits":{"*":{"name":"items","requests":60,"window":"1m"}}},
	{"endpoint":"/api/v1/q","limits":{"*":{"name":"q","requests":60,"window":"1m"}}},
	{"endpoint":"/api/v1/files/*","limits":{"*":{"name":"files","requests":60,"window":"1m"}}},
	{"endpoint":"/t/{a}/{b}","limits":{"*":{"name":"two","requests":60,"window":"1m"}}},
	{"endpoint":"/","limits":{"*":{"name":"root","requests":60,"window":"1m"}}}]}`

// everything is a stack whose REST API answers a denial with 429.
var everything = &gateway.Stack{
	REST: gateway.Stage{Name: "dev", Wait: time.Minute}, HTTP: gateway.Stage{Name: gateway.DefaultStage, Wait: time.Minute},
	Authorizer: gateway.Function{Timeout: time.Minute}, Handler: gateway.Function{Timeout: time.Minute},
	Responses: map[string]gateway.Response{"ACCESS_DENIED": {Status: http.StatusTooManyRequests,
		Headers: map[string]string{"Retry-After": "context.authorizer.retryAfter"},
		Body:    `{"error":"$context.authorizer.problemError","violated-policies":["$context.authorizer.policy"]}`}},
}

// charging is the two APIs with Weir's functions. For each request it records which limits were
// charged (charged) and which patterns served the request (ran).
type charging struct {
	limiter.Store

	rest, web        *gateway.API
	charged, ran     []string
	answeredWithPath string // the path that the back end received
}

func (c *charging) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	for _, charge := range charges {
		c.charged = append(c.charged, charge.Limit.Name)
	}
	return c.Store.Take(ctx, now, s, charges, results)
}

// newCharging returns the two APIs. Their limits keep their counts in store. A custom domain adds
// the prefix /v1 to every path.
func newCharging(t testing.TB, stack *gateway.Stack, routes []string, store limiter.Store) *charging {
	t.Helper()
	c := &charging{Store: store}
	r, err := rules.Parse([]byte(endpointRules), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(c, limiter.Options{Logger: logger})), Rules: live.Fixed(r), Logger: logger,
		Identifier: caller.New(caller.Options{}), Clock: frozen, BasePaths: []string{"/v1"}, BehindAuthorizer: true,
	}
	mux := http.NewServeMux()
	for _, endpoint := range endpoints {
		mux.HandleFunc(endpoint.pattern, func(_ http.ResponseWriter, r *http.Request) {
			c.ran, c.answeredWithPath = append(c.ran, endpoint.limit), r.URL.Path
		})
	}
	apis, err := gateway.New(stack, routes, gateway.Options{Authorizer: lambdahttp.NewAuthorizer(e), Handler: lambdahttp.NewHandler(e, mux),
		Clock: frozen, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	c.rest, c.web = apis[0], apis[1]
	return c
}

// rawRequest parses a request line and keeps its target unchanged, as a lenient server does. It
// returns nil for a line without a method and a target.
func rawRequest(t testing.TB, line, host, address string) *http.Request {
	t.Helper()
	method, rest, _ := strings.Cut(line, " ")
	target, _, _ := strings.Cut(rest, " ")
	if r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: " + host +
		"\r\n\r\n"))); err == nil {
		r.RemoteAddr = address
		return r.WithContext(t.Context())
	}
	if !strings.HasPrefix(target, "/") || method == "" {
		return nil
	}
	path, query, _ := strings.Cut(target, "?")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Method, r.Host, r.RemoteAddr, r.RequestURI, r.URL = method, host, address, target, &url.URL{Path: path, RawPath: path, RawQuery: query}
	return r
}

// Both APIs reject a malformed path: no pattern serves the request. No limit is charged, because these rules have
// none for every path.
func TestAttack_malformedPath(t *testing.T) {
	for _, path := range []string{"/api/v1/items/%zz%2F..%2F..%2Fq", "/api/v1/items/%", "/api/v1/items/%2", "/api/v1/items/x%zz"} {
		c := newCharging(t, golden(t), []string{"GET /api/v1/items/{id}"}, storetest.Must(memstore.New(memstore.Options{})))
		for _, api := range []*gateway.API{c.rest, c.web} {
			c.ran, c.charged = nil, nil
			for range 200 {
				do(api, rawRequest(t, "GET "+path, "api.example.com", "192.0.2.1:1"))
			}
			if len(c.ran) > 0 || len(c.charged) > 0 {
				t.Errorf("%s API: %s: got %d of 200 requests served and charges on %v, want 0 and none", api.Kind, path, len(c.ran), c.charged)
			}
		}
		got := do(c.rest, rawRequest(t, "GET "+path, "api.example.com", "192.0.2.1:1"))
		if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, `"error":"malformed_path"`) {
			t.Errorf("REST API: %s: got %d %s, want 429 and malformed_path", path, got.status, got.body)
		}
		if got := do(c.web, rawRequest(t, "GET "+path, "api.example.com", "192.0.2.1:1")); got.status != http.StatusBadRequest {
			t.Errorf("HTTP API: %s: got %d %s, want 400", path, got.status, got.body)
		}
	}
}

// FuzzAttack_path searches for a request line that a pattern serves although the pattern's limit is
// not charged. For a plain path it also searches for a charge on another limit. The store admits every request, so
// that a refusal cannot hide a wrong charge.
func FuzzAttack_path(f *testing.F) {
	for _, path := range []string{
		"/api/v1/search", "/api/v1/%73earch/", "//api//v1/./search?q=/", "/api%2Fv1%2Fsearch", "/api/v1/search;x", "/api/v1/x/..%2Fsearch",
		"/v1/api/v1/search", "/%761/api/v1/q", "/v1/v1/t/a/b",
		"/api/v1/items/%zz%2F..%2F..%2Fq", "/api/v1/items/%2e%2e/q", "/api/v1/items/a%2Fb", "/api/v1/items/%252e", "/api/v1/items/100%25",
		"/api/v1/items/%3Fx", "/api/v1/items/a#b", "/api/v1/items/%00", "/api/v1/items/\xff%ff",
		`/api/v1\items\x`, "/api/v1/files", "/api/v1/files/", "/api/v1/files/a/../../q", "/t/%2e/b", "/t/+/%20", "/", "//", "/v1", "*",
		"http://h.example/api/v1/q", "/%", "/t/a/b%",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "DELETE"} {
			f.Add(method+" "+path+" HTTP/1.1", false)
			f.Add(method+" "+path, true)
		}
	}
	c := newCharging(f, everything, everywhere, admitting{})
	caller := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, line string, custom bool) {
		host := map[bool]string{false: "127.0.0.1:8080", true: "api.example.com"}[custom]
		for _, api := range []*gateway.API{c.rest, c.web} {
			caller = caller.Next()
			r := rawRequest(t, line, host, netip.AddrPortFrom(caller, 1).String())
			if r == nil {
				return
			}
			c.ran, c.charged = nil, nil
			answered := do(api, r)
			_, target, _ := strings.Cut(line, " ")
			path, _, _ := strings.Cut(target, "?")
			wrong := slices.ContainsFunc(c.ran, func(limit string) bool { return !slices.Contains(c.charged, limit) })
			if wrong || rules.Plain(path) && len(c.ran) > 0 && !slices.Equal(c.ran, c.charged) {
				t.Errorf("%s API: %q: got charges on the limits %v, want %v because their patterns served path %q (response %d %s)", api.Kind, line,
					c.charged, c.ran, c.answeredWithPath, answered.status, answered.body)
			}
		}
	})
}

// admitting is a store that admits every request and stores nothing.
type admitting struct{ limiter.Store }

func (admitting) Take(_ context.Context, _ algo.Instant, _ limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	for i, charge := range charges {
		results[i].Machine = charge.Limit.Machine()
	}
	return true, nil
}
