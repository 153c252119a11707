package gateway_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

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
