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

// The Gate enforces the limits of a document for a server. An API key identifies a caller; without a
// key, the address of the peer does.
func ExampleGate() {
	limits, err := rules.Parse([]byte(`{"rules":[
		{"endpoint":"/hello","limits":{"free":{"requests":1,"window":"1h"},"paid":{"requests":100,"window":"1h"}}}
	]}`), rules.Options{Version: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	secret := []byte("kept in a secret store")
	keys, err := caller.ParseAPIKeys(fmt.Appendf(nil, `[{"id":"k1","tier":"paid","hash":%q}]`, caller.HashAPIKey(secret, "the key of a customer")), secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	identifier := caller.New(caller.Options{APIKeys: keys})
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
		Identify: func(ctx context.Context, now time.Time, r httplimit.Request) (caller.Caller, error) {
			return identifier.Caller(ctx, now, caller.Credentials{
				APIKey: r.Header.Get("X-Api-Key"), Address: r.Address,
			})
		},
	})
	server := httptest.NewServer(gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })))
	defer server.Close()

	for _, key := range []string{"", "", "the key of a customer", "weir_a-guess"} {
		request, err := http.NewRequest(http.MethodGet, server.URL+"/hello", http.NoBody) //nolint:noctx // as a reader would write it
		if err != nil {
			fmt.Println(err)
			return
		}
		if key != "" {
			request.Header.Set("X-Api-Key", key)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode, answer.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 0
	// 429 0
	// 200 99
	// 401
}

// Decide returns the answer. The host converts it to its own response.
func ExampleGate_Decide() {
	limits, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/hello","limits":{"*":{"requests":1,"window":"1h"}}}]}`), rules.Options{Version: 1})
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
		Observe: func(o telemetry.Outcome) { fmt.Print(o.Caller.User, " ", o.Class(), ": ") },
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
