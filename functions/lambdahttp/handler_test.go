package lambdahttp_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/sample"
)

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
		{"an authorizer that is not Weir's", "rest-proxy-anonymous.json", `"authorizer"`, `"authorizer"`},
		{"context without the member weir", "rest-proxy-anonymous.json", ours, `"org": "acme"`},
		{"another authorizer's decision", "rest-proxy-anonymous.json", ours, `"decision": "allowed"`},
		{"refused", "rest-proxy-anonymous.json", ours, `"weir": "refused"`},
		{"member weir with another value", "rest-proxy-anonymous.json", ours, `"weir": "Allowed"`},
		{"not text", "rest-proxy-anonymous.json", ours, `"weir": true`},
		{"no authorizer", "rest-proxy-anonymous.json", `"authorizer"`, `"other"`},
		{"HTTP API, payload 1.0", "rest-proxy-anonymous.json", `"resource": "/api/v1/search"`, `"version": "1.0"`},
		{"HTTP API", "http-api-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `, "lambda": {` + ours +
			`}},`},
		{"function URL", "function-url-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `},`},
		{"load balancer", "alb-anonymous.json", `"requestContext": {`, `"requestContext": {"authorizer": {` + ours + `},`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := memory(t)
			e.BehindAuthorizer = c.old != c.replacement
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
		"text": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }, answer{StatusCode: http.StatusOK,
			Body: "text"}},
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
