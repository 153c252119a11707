package lambdahttp_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
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

// A request waits for its turn in a leaky bucket only if an answer is possible before the deadline of the
// function. The Go handler and the layer do the same.
func TestDelay_deadline(t *testing.T) {
	const document = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"queue","requests":6,"window":"1m","algorithm":"leaky_bucket",` +
		`"burst":5,"per":["ip"]}}}]}`
	for _, c := range []struct {
		left   time.Duration // until the deadline
		status string
		waited time.Duration
	}{
		{10*time.Second + httplimit.AnswerTime, `"statusCode":204`, 10 * time.Second},
		{10*time.Second + httplimit.AnswerTime - 1, `"statusCode":503`, 0},
	} {
		for name, invoke := range map[string]func(context.Context, *lambdahttp.Environment, []byte) (string, error){
			"handler": func(ctx context.Context, e *lambdahttp.Environment, event []byte) (string, error) {
				api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
				answer, err := lambdahttp.NewHandler(e, api).Invoke(ctx, event)
				return string(answer), err
			},
			"layer": func(ctx context.Context, e *lambdahttp.Environment, event []byte) (string, error) {
				own, err := lambdahttp.NewLayer(e).Invoke(ctx, event, func(*lambdahttp.Admitted) error { return nil })
				if own == nil {
					return `"statusCode":204`, err
				}
				return string(own.Payload), err
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				e := memory(t)
				e.Rules = storetest.Must(fixed(rules.Parse([]byte(document), rules.Options{Version: 1, MaxDelay: 20 * time.Second})))
				e.MaxDelay = 20 * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), c.left)
				defer cancel()
				begun := time.Now()
				for _, want := range []string{`"statusCode":204`, c.status} {
					if got, err := invoke(ctx, e, sampleEvent(t, "http-api-anonymous.json")); err != nil || !strings.Contains(got, want) {
						t.Errorf("%s, %s before the deadline: got %s, %v, want %s", name, c.left, got, err, want)
					}
				}
				if waited := time.Since(begun); waited != c.waited {
					t.Errorf("%s, %s before the deadline: waited %s, want %s", name, c.left, waited, c.waited)
				}
			})
		}
	}
}

// sentBy returns a sample event with another method and additional headers.
func sentBy(t *testing.T, file, method string, header map[string]string) []byte {
	t.Helper()
	return edited(t, file, func(event map[string]any) {
		if _, ok := event["httpMethod"]; ok && method != "" {
			event["httpMethod"] = method
		} else if method != "" {
			event["requestContext"].(map[string]any)["http"].(map[string]any)["method"] = method
		}
		for name, value := range header {
			if multi, ok := event["multiValueHeaders"].(map[string]any); ok {
				multi[name] = []string{value}
			} else {
				event["headers"].(map[string]any)[name] = value
			}
		}
	})
}

// Every answer has CORS headers for the allowed origins: answers of the API, answers with the
// decision of the authorizer, and refusals.
func TestHandler_cors(t *testing.T) {
	const origin = "https://app.example.com"
	for _, c := range []struct {
		name, file string
		header     map[string]string
		status     int
	}{
		{"allowed by the authorizer", "rest-proxy-user.json", nil, http.StatusOK},
		{"allowed", "http-api-user.json", nil, http.StatusCreated},
		{"refused", "http-api-user.json", nil, http.StatusTooManyRequests},
		{"bad credential", "http-api-anonymous.json", map[string]string{"authorization": "Bearer x"}, http.StatusUnauthorized},
	} {
		for _, origins := range [][]string{{"https://other.example.com", origin}, {"*"}, {"https://other.example.com"}, nil} {
			e := memory(t)
			e.CORSOrigins = origins
			header := map[string]string{"origin": origin}
			maps.Copy(header, c.header)
			var a answer
			for range 5 { // the limit allows two requests, so a later request is refused
				a = handle(t, e, sample.New(e), sentBy(t, c.file, "", header))
				if a.StatusCode == c.status {
					break
				}
			}
			allow, expose, vary := "", "", "Origin"
			switch {
			case origins == nil:
				vary = ""
			case len(origins) == 2:
				allow, expose = origin, strings.Join(httplimit.ExposedFields(), ", ")
			case origins[0] == "*":
				allow, expose = "*", strings.Join(httplimit.ExposedFields(), ", ")
			}
			if a.StatusCode != c.status || a.header("Access-Control-Allow-Origin") != allow ||
				!strings.EqualFold(a.header("Access-Control-Expose-Headers"), expose) || a.header("Vary") != vary ||
				a.header("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s, origins %q: got %+v, want status %d, allowed origin %q, exposed fields %q and Vary %q", c.name, origins, a, c.status,
					allow, expose, vary)
			}
		}
	}
}

// A preflight that the handler answers is free, and needs no credential. One that is passed on counts by the method that it asks
// for. It needs a credential where that method does, because a back end that ignores the method would run it.
func TestOptions(t *testing.T) {
	store := &counting{Store: storetest.Must(memstore.New(memstore.Options{}))}
	e := environment(t, store)
	e.CORSOrigins = []string{"https://app.example.com"}
	e.Identifier = caller.New(caller.Options{RequireCredential: true})
	preflight := map[string]string{"origin": "https://app.example.com", "access-control-request-method": "GET",
		"access-control-request-headers": "authorization,x-api-key"}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		preflight["access-control-request-method"] = method
		a := handle(t, e, sample.New(e), sentBy(t, "http-api-anonymous.json", http.MethodOptions, preflight))
		if a.StatusCode != http.StatusNoContent || a.header("Access-Control-Allow-Methods") != method ||
			a.header("Access-Control-Allow-Headers") != "authorization,x-api-key" {
			t.Errorf("preflight for %s: got %+v, want 204 that permits it", method, a)
		}
	}
	if len(store.subjects) > 0 {
		t.Errorf("charged %v, want nothing", store.subjects)
	}
	send := func(passed int, method string) {
		t.Helper()
		preflight["access-control-request-method"] = method
		effects := ""
		for range 3 {
			event := strings.Replace(string(sentBy(t, "rest-authorizer-anonymous.json", http.MethodOptions, preflight)), `"path":"/api/v1/search"`,
				`"path":"/api/v1/data"`, 1)
			p, err := authorize(t, e, []byte(event))
			if err != nil {
				t.Fatal(err)
			}
			effects += effect(p)[:1]
		}
		if want := strings.Repeat("A", passed) + strings.Repeat("D", 3-passed); effects != want {
			t.Errorf("preflight for %s: got %s, want %s", method, effects, want)
		}
	}
	event := sentBy(t, "rest-authorizer-anonymous.json", http.MethodOptions, preflight)
	if p, err := authorize(t, e, event); err == nil || err.Error() != "Unauthorized" {
		t.Errorf("preflight without the required credential: got %+v and error %v, want Unauthorized", p, err)
	}
	e.Identifier = caller.New(caller.Options{})
	send(2, http.MethodPost) // the limit of this method
	send(3, http.MethodGet)  // another rule
}
