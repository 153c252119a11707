package gateway_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
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

// refusing is the authorizer context that Weir returns for a caller over the limit.
const refusing = `{
	"retryAfter": "1", "rateLimitLimit": 20, "rateLimitRemaining": 0, "rateLimitReset": "1772600779",
	"rateLimitPolicy": "\"search\";q=100;w=60", "rateLimit": "\"search\";r=0;t=1",
	"message": "Too many requests. Retry after 1 second.", "limit": "100", "window": "60s", "policy": "search"
}`

func TestGolden_Refused(t *testing.T) {
	golden(t, functions{"authorizer": says(denies(refusing)), "handler": says("")}, func(t *testing.T, rest, _ *gateway.API) {
		got := do(rest, request(t, "GET", "/api/v1/search", http.NoBody))
		var body struct {
			Limit    int      `json:"limit"`
			Message  string   `json:"message"`
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != http.StatusTooManyRequests || body.Limit != 100 || len(body.Violated) != 1 {
			t.Errorf("answer: got %d %s (error %v), want 429 with limit 100 and one violated policy", got.status, got.body, err)
		}
		checkHeaders(t, got.header, map[string]string{
			"Retry-After": "1", "X-RateLimit-Remaining": "0", "RateLimit": `"search";r=0;t=1`, "Content-Type": "application/problem+json",
		})
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
		{fails("Unauthorized"), 401, `"error":"unauthorized"`, map[string]string{"Www-Authenticate": "Bearer", "Cache-Control": "no-store", "Content-Type": "application/problem+json"}},
		{fails("out of order"), 503, `"error":"authorizer_failed"`, map[string]string{"Retry-After": "1", "Content-Type": "application/problem+json"}},
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

// In each golden template, either both APIs answer preflights without a function, or neither does.
func TestGolden_Preflight(t *testing.T) {
	function := says("")
	golden(t, functions{"authorizer": function, "handler": function}, func(t *testing.T, rest, web *gateway.API) {
		want := []int{http.StatusForbidden, http.StatusNotFound}
		if slices.Contains(rest.Routes, gateway.Route{Method: http.MethodOptions, Path: "/api/v1/search"}) {
			want = []int{http.StatusNoContent, http.StatusNoContent}
		}
		for i, api := range []*gateway.API{rest, web} {
			got := ask(t, api, "OPTIONS", "/api/v1/search", "https://app.example", "GET")
			if got.status != want[i] || function.calls() != 0 {
				t.Errorf("%s: got status %d and %d calls, want status %d", api.Kind, got.status, function.calls(), want[i])
			}
			if allowed := got.header.Get("Access-Control-Allow-Methods") != ""; allowed != (got.status == http.StatusNoContent) {
				t.Errorf("%s: got status %d with %s, want Access-Control-Allow-Methods only with 204", api.Kind, got.status, controls(got))
			}
		}
	})
}
