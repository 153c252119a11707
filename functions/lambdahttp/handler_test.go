package lambdahttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// If only a limit of all callers applies, the context of the authorizer has no header fields. The handler
// then copies none, and must not charge the request again.
func TestHandler_behindAuthorizer_hiddenLimit(t *testing.T) {
	e := memory(t)
	e.Rules = storetest.Must(fixed(rules.Parse([]byte(`{"rules":[{"endpoint":"/api/v1/search","limits":{"global":{"name":"all","requests":4,"window":"1m"}}}]}`), rules.Options{Version: 1})))
	for i := range 5 {
		p, err := authorize(t, e, sampleEvent(t, "rest-authorizer-anonymous.json"))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "Allow", false: "Deny"}[i < 4]; effect(p) != want {
			t.Fatalf("request %d: got %s, want %s", i+1, effect(p), want)
		}
		if i == 4 {
			return
		}
		if a := handle(t, e, sample.New(e), behind(t, p.Context)); a.StatusCode != http.StatusOK || a.header("X-RateLimit-Limit") != "" {
			t.Errorf("request %d: got %+v, want 200 without header fields of a limit", i+1, a)
		}
	}
}

// behind returns the event that the handler receives after an authorizer returned a policy with this context.
func behind(t *testing.T, context map[string]any) []byte {
	t.Helper()
	return edited(t, "rest-proxy-anonymous.json", func(e map[string]any) {
		e["requestContext"].(map[string]any)["authorizer"] = context
	})
}

// The handler skips the limits only if the authorizer of a REST API reports that Weir has allowed the
// request.
func TestHandler_notDecided(t *testing.T) {
	const ours = `"weir": "allowed"`
	for _, c := range []struct {
		name, file, old, replacement string
	}{
		{"context without the member weir", "rest-proxy-anonymous.json", ours, `"org": "acme"`},
		{"another authorizer's decision", "rest-proxy-anonymous.json", ours, `"decision": "allowed"`},
		{"refused", "rest-proxy-anonymous.json", ours, `"weir": "refused"`},
		{"member weir with another value", "rest-proxy-anonymous.json", ours, `"weir": "Allowed"`},
		{"not text", "rest-proxy-anonymous.json", ours, `"weir": true`},
		{"no authorizer", "rest-proxy-anonymous.json", `"authorizer"`, `"other"`},
		{"HTTP API, payload 1.0", "rest-proxy-anonymous.json", `"resource": "/api/v1/search"`, `"version": "1.0"`},
		{"HTTP API", "http-api-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `, "lambda": {` + ours + `}},`},
		{"function URL", "function-url-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `},`},
		{"load balancer", "alb-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `},`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := memory(t)
			event := changed(t, sampleEvent(t, c.file), c.old, c.replacement)
			for i := range 3 {
				a := handle(t, e, sample.New(e), event)
				if a.StatusCode == http.StatusTooManyRequests {
					return
				}
				if a.header("X-RateLimit-Limit") == "100" {
					t.Errorf("request %d: got %+v, want no limit from the event's context", i+1, a.MultiValueHeaders)
				}
			}
			t.Error("three requests were served, want at most two")
		})
	}
}

// API Gateway keeps the base path in the path only for a custom domain, so the handler removes the base
// path only there.
func TestHandler_basePath(t *testing.T) {
	var seen string
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.Path })
	for _, c := range []struct{ file, old, replacement, want string }{
		{"rest-proxy-user.json", ownDomain, `"domainName": "api.example.com"`, "/v1/search"},
		{"rest-proxy-user.json", ownDomain, ownDomain, "/api/v1/search"},
		{"http-api-user.json", `"domainName": "f6g7h8i9j0.execute-api.eu-central-1.amazonaws.com"`, `"stage": "$default", "domainName": "api.example.com"`, "/dev/api/v1/data"},
		{"http-api-user.json", `"rawPath": "/dev/api`, `"rawPath": "/dev/api`, "/api/v1/data"},
		{"function-url-anonymous.json", "/api/v1/items/5", "/api/v1/items/5", "/api/v1/items/5"},
		{"alb-anonymous.json", "/api/v1/search", "/api/v1/search", "/api/v1/search"},
	} {
		e := memory(t)
		e.BasePaths = []string{"/api"}
		if handle(t, e, api, changed(t, sampleEvent(t, c.file), c.old, c.replacement)); seen != c.want {
			t.Errorf("%s with %s: got path %s, want %s", c.file, c.replacement, seen, c.want)
		}
	}
	e := memory(t)
	e.BasePaths = []string{"/api"}
	e.Serve(api).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "http://api.example.com/api/v1/search", http.NoBody))
	if seen != "/api/v1/search" {
		t.Errorf("net/http: got path %s, want it unchanged", seen)
	}
}

// The answer has the body and the first final status that a handler writes. The body is in base64 if it
// is not text.
func TestHandler_response(t *testing.T) {
	for name, c := range map[string]struct {
		api  http.HandlerFunc
		want answer
	}{
		"an informational status is not the answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot)
		}, answer{StatusCode: http.StatusAccepted}},
		"text that is encoded is bytes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "text")
		}, answer{StatusCode: http.StatusOK, Body: "dGV4dA==", IsBase64Encoded: true}},
		"text": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }, answer{StatusCode: http.StatusOK, Body: "text"}},
	} {
		for _, file := range []string{"rest-proxy-user.json", "http-api-user.json", "alb-anonymous.json"} {
			a := handle(t, memory(t), c.api, sampleEvent(t, file))
			if a.StatusCode != c.want.StatusCode || a.Body != c.want.Body || a.IsBase64Encoded != c.want.IsBase64Encoded {
				t.Errorf("%s: %s: got %+v, want %+v", name, file, a, c.want)
			}
		}
	}
}

// Every cookie reaches a load balancer that accepts only one value for each header name.
func TestHandler_cookies(t *testing.T) {
	const many = 40
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range many {
			w.Header().Add("Set-Cookie", "c"+strconv.Itoa(i)+"=1; Expires=Wed, 04 Mar 2026 12:00:00 GMT")
		}
	})
	got := map[string]bool{}
	for name, value := range handle(t, memory(t), api, sampleEvent(t, "alb-anonymous.json")).Headers {
		if strings.EqualFold(name, "Set-Cookie") {
			got[value] = true
		}
	}
	for i := range many {
		if want := "c" + strconv.Itoa(i) + "=1; Expires=Wed, 04 Mar 2026 12:00:00 GMT"; !got[want] {
			t.Errorf("cookie %d: got %v, want %q among them", i, got, want)
		}
	}
}
