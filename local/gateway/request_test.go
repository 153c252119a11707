package gateway_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// broken is a body whose reader fails before the end.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestRequest_BodyTruncated(t *testing.T) {
	both(t, func(t *testing.T, _ gateway.Kind, api *gateway.API, function *stub) {
		if got := do(api, request(t, "POST", "/open/x", broken{})); got.status != http.StatusBadRequest || function.calls() != 0 {
			t.Errorf("status and calls: got %d and %d, want 400 and 0", got.status, function.calls())
		}
	})
}

// The gateway takes the source address from the connection, never from a header. It writes the
// address in the format of AWS.
func TestRequest_SourceIP(t *testing.T) {
	tests := []struct{ remote, want string }{
		{"192.0.2.7:1234", "192.0.2.7"},
		{"[2001:db8::1]:1234", "2001:db8::1"},
		{"[::ffff:192.0.2.7]:1234", "192.0.2.7"},
		{"[fe80::1%eth0]:1234", "fe80::1"},
		{"@", ""},
	}
	for _, tt := range tests {
		t.Run(tt.remote, func(t *testing.T) {
			both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
				r := request(t, "GET", "/", http.NoBody)
				r.RemoteAddr = tt.remote
				r.TLS = &tls.ConnectionState{}
				r.Header.Set("X-Forwarded-For", "203.0.113.9")
				r.Header.Set("X-Forwarded-Proto", "gopher")
				r.Header.Set("X-Forwarded-Port", "70")
				do(api, r)
				got, header := seen(t, kind, function)
				if got != tt.want {
					t.Errorf("source address: got %q, want %q", got, tt.want)
				}
				if want := "203.0.113.9, " + tt.want; header["X-Forwarded-For"] != want || header["X-Forwarded-Proto"] != "https" ||
					header["X-Forwarded-Port"] != "443" {
					t.Errorf("forwarding headers: got %v, want %q, https and port 443", header, want)
				}
			})
		})
	}
}

// seen returns the source address and the headers in the event that the function received.
func seen(t *testing.T, kind gateway.Kind, function *stub) (source string, header map[string]string) {
	t.Helper()
	if kind == gateway.REST {
		event := decode[events.APIGatewayProxyRequest](t, function.event(t))
		return event.RequestContext.Identity.SourceIP, event.Headers
	}
	event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
	header = map[string]string{}
	for name, value := range event.Headers {
		header[http.CanonicalHeaderKey(name)] = value
	}
	return event.RequestContext.HTTP.SourceIP, header
}

func TestRequest_SignatureDropped(t *testing.T) {
	both(t, func(t *testing.T, _ gateway.Kind, api *gateway.API, function *stub) {
		r := request(t, "GET", "/", http.NoBody)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x")
		do(api, r)
		if got := string(function.event(t)); strings.Contains(got, "AWS4") {
			t.Errorf("event: got %s, want no signature", got)
		}
	})
}

// The request "OPTIONS *" has no path. Without a default route, both APIs reject it.
func TestRequest_NoPath(t *testing.T) {
	want := map[gateway.Kind]int{gateway.REST: http.StatusForbidden, gateway.HTTP: http.StatusNotFound}
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, _ *stub) {
		r := request(t, "OPTIONS", "/", http.NoBody)
		r.URL.Path, r.RequestURI = "*", "*"
		if got := do(api, r); got.status != want[kind] {
			t.Errorf("status: got %d, want %d", got.status, want[kind])
		}
	})
}

// An API has no route for a path of the handler. No spelling of a route's path reaches this path of the handler, because Weir
// does not change the path of a request.
func TestAttack_otherRoute(t *testing.T) {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":1000,"window":"1m","per":["ip"]}}}]}`),
		rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{Logger: logger})),
		Rules:   live.Fixed(r), Logger: logger,
		Identifier: caller.New(caller.Options{}), Clock: frozen, BehindAuthorizer: true,
	}
	mux, reached := http.NewServeMux(), 0
	mux.HandleFunc("/admin", func(http.ResponseWriter, *http.Request) { reached++ })
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/public/{rest...}", func(http.ResponseWriter, *http.Request) {})
	apis, err := gateway.New(everything, []string{"GET /items/{id}", "GET /public/{proxy+}"}, gateway.Options{
		Authorizer: lambdahttp.NewAuthorizer(e), Handler: lambdahttp.NewHandler(e, mux), Clock: frozen, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range apis {
		for _, path := range []string{
			"/admin", "/items/..%2Fadmin", "/items/%2e%2e%2Fadmin", "/items/.%2E%2f%61dmin", "/items/%2Fadmin", "//admin", "/%61dmin",
			"/public/../admin", "/public/%2e%2e/admin", "/public/..%2Fadmin", "/public/%252e%252e/admin", "/public/x/%2e%2e/%2e%2e/admin",
			"/public%2F..%2Fadmin",
		} {
			do(api, rawRequest(t, "GET "+path, "api.example.com", "192.0.2.1:1"))
			if reached > 0 {
				t.Errorf("%s API: %s: got a call of /admin, want none", api.Kind, path)
				reached = 0
			}
		}
	}
}
