package lambdahttp_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

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
