package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// PerIP limits each address. The proxies in 10.0.0.0/8 report the addresses of their clients.
func ExamplePerIP() {
	limit := httplimit.PerIP(1, time.Hour, httplimit.WithTrustedProxies("10.0.0.0/8"))
	api := limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))

	for _, client := range []string{"203.0.113.7", "203.0.113.7", "203.0.113.8"} {
		r := httptest.NewRequest(http.MethodGet, "/hello", http.NoBody) //nolint:noctx // as a reader would write it
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "ip";q=1;w=3600
	// 429 "ip";q=1;w=3600
	// 200 "ip";q=1;w=3600
}

// A document has limits for each tier. An API key identifies a caller; without a key, the address does.
func ExampleFromDocument() {
	secret := []byte("kept in a secret store")
	keys, err := caller.ParseAPIKeys(fmt.Appendf(nil, `[{"id":"k1","tier":"paid","hash":%q}]`,
		caller.HashAPIKey(secret, "the key of a customer")), secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := httplimit.FromDocument([]byte(`{"rules":[
		{"endpoint":"/hello","limits":{"free":{"requests":1,"window":"1h"},"paid":{"requests":100,"window":"1h"}}}
	]}`), httplimit.WithIdentifier(caller.New(caller.Options{APIKeys: keys})))
	if err != nil {
		fmt.Println(err)
		return
	}
	api := limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))

	for _, key := range []string{"", "", "the key of a customer", "weir_a-guess"} {
		r := httptest.NewRequest(http.MethodGet, "/hello", http.NoBody) //nolint:noctx // as a reader would write it
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 0
	// 429 0
	// 200 99
	// 401
}

// Decide returns the answer. The host converts it to its own response.
func ExampleGate_Decide() {
	limits, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/hello","limits":{"*":{"requests":1,"window":"1h"}}}]}`),
		rules.Options{Version: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate := httplimit.New(httplimit.Options{
		Limiter: l,
		Select:  live.Fixed(limits).Select,
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
			return caller.Caller{User: "alice"}, nil // the host has verified the user
		},
		Observe: func(_ context.Context, o telemetry.Outcome) { fmt.Print(o.Caller.User, " ", o.Class(), ": ") },
	})
	for range 2 {
		result := gate.Decide(context.Background(), httplimit.Request{Method: http.MethodGet, Path: rules.EncodedPath("/hello")})
		status := http.StatusOK
		if result.Answer.Problem != nil {
			status = result.Answer.Problem.Status
		}
		fmt.Println(status, "remaining", result.Answer.Remaining)
	}
	// Output:
	// alice allowed: 200 remaining 0
	// alice refused: 429 remaining 0
}
