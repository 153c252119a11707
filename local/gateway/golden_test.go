package gateway_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// golden runs a test on each golden template. The value of WEIR_FUNCTION in the template is the key of a
// function's handler in the map all.
func golden(t *testing.T, all functions, test func(t *testing.T, rest, web *gateway.API)) {
	t.Helper()
	for _, path := range templatetest.Glob(t, "../../infra/golden/*.template.json") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			parsed := templatetest.Parse(t, path)
			byID := functions{}
			for _, f := range parsed.Functions() {
				byID[f.ID] = all[f.Environment["WEIR_FUNCTION"]]
				if byID[f.ID] == nil {
					byID[f.ID] = says("null")
				}
			}
			g, err := gateway.New(parsed, gateway.Options{Functions: byID, Clock: frozen})
			if err != nil {
				t.Fatal(err)
			}
			apis := g.APIs()
			if len(apis) != 2 || apis[0].Kind != gateway.REST || apis[1].Kind != gateway.HTTP {
				t.Fatalf("APIs: got %+v, want a REST API and an HTTP API", apis)
			}
			test(t, apis[0], apis[1])
		})
	}
}

// Every REST route except the preflights has the authorizer. Both APIs have the same routes.
func TestGolden_Routes(t *testing.T) {
	golden(t, functions{"authorizer": says(""), "handler": says("")}, func(t *testing.T, rest, web *gateway.API) {
		guarded := map[string]bool{}
		for _, route := range rest.Routes {
			if preflight := route.Method == http.MethodOptions; preflight != (route.Authorizer == "") || preflight != (route.Function == "") {
				t.Errorf("route: got %+v, want an authorizer and a function, or neither for OPTIONS", route)
			} else if !preflight {
				guarded[route.Method+" "+route.Path] = true
			}
		}
		for _, route := range web.Routes {
			if key := route.Method + " " + route.Path; !guarded[key] {
				t.Errorf("%s: got a route only in the HTTP API, want it in both APIs", key)
			}
		}
		if len(guarded) == 0 || len(guarded) != len(web.Routes) {
			t.Errorf("routes of the REST API and the HTTP API: got %d and %d, want equal numbers", len(guarded), len(web.Routes))
		}
	})
}

// The template's gateway responses define the answers to bad credentials and to a failed authorizer. If another authorizer
// than Weir's denies a request, the answer omits the headers of Weir's variables.
func TestGolden_failures(t *testing.T) {
	for _, tt := range []struct {
		guard  *stub
		status int
		body   string
		header map[string]string
	}{
		{fails("Unauthorized"), 401, `"error":"unauthorized"`, map[string]string{"Www-Authenticate": "Bearer", "Cache-Control": "no-store",
			"Content-Type": "application/problem+json"}},
		{fails("out of order"), 503, `"error":"authorizer_failed"`, map[string]string{"Retry-After": "1",
			"Content-Type": "application/problem+json"}},
		{says(denies(`{"other":"x"}`)), 429, `"violated-policies":[""]`, map[string]string{"Retry-After": "", "Cache-Control": "no-store"}},
	} {
		golden(t, functions{"authorizer": tt.guard, "handler": says("")}, func(t *testing.T, rest, _ *gateway.API) {
			got := do(rest, request(t, "GET", "/api/v1/search", http.NoBody))
			if got.status != tt.status || !strings.Contains(got.body, tt.body) {
				t.Errorf("answer: got %d %s, want %d with %s", got.status, got.body, tt.status, tt.body)
			}
			checkHeaders(t, got.header, tt.header)
		})
	}
}
