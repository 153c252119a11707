package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

// ask sends a request with an Origin header. If requested is not empty, the request is a preflight
// for the method requested.
func ask(t *testing.T, api *gateway.API, method, path, origin, requested string, header ...string) answer {
	t.Helper()
	r := request(t, method, path, http.NoBody)
	for name, value := range map[string]string{"Origin": origin, "Access-Control-Request-Method": requested} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	for _, each := range header {
		name, value, _ := strings.Cut(each, ": ")
		r.Header.Set(name, value)
	}
	return do(api, r)
}

// controls returns the Access-Control headers of an answer as sorted text.
func controls(a answer) string {
	var all []string
	for name, values := range a.header {
		if short, ok := strings.CutPrefix(name, "Access-Control-"); ok {
			all = append(all, short+": "+strings.Join(values, " and "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// A MOCK integration that CDK wrote answers with its own CORS headers. If it allows several
// origins, it echoes the Origin of the request. If it does not allow this Origin, it sends the
// first allowed origin.
func TestREST_Mock(t *testing.T) {
	api := newAPI(t, "template/testdata/good/preflight.json", gateway.REST, functions{"Function": says(`{}`)}, frozen)
	tests := []struct{ path, origin, want string }{
		{"/any", "https://one.example", "*"},
		{"/any", "", "*"},
		{"/one", "https://two.example", "https://one.example"},
		{"/several", "https://one.example", "https://one.example"},
		{"/several", "https://two.example", "https://two.example"},
		{"/several", "https://three.example", "https://three.example"},
		{"/several", "https://four.example", "https://one.example"},
		{"/several", "https://two.example.org", "https://one.example"},
		{"/several", "", "https://one.example"},
	}
	for _, tt := range tests {
		got := ask(t, api, "OPTIONS", tt.path, tt.origin, "GET")
		want := "Allow-Headers: Authorization,x-api-key; Allow-Methods: GET,POST; Allow-Origin: " + tt.want
		if got.status != http.StatusNoContent || got.body != "" || controls(got) != want || got.header.Get("Vary") != "Origin" {
			t.Errorf("%s from %q: got %d %q %v, want 204 and %s", tt.path, tt.origin, got.status, got.body, got.header, want)
		}
	}
	checkFailure(t, ask(t, api, "OPTIONS", "/any", "", "", "Content-Type: text/plain"), http.StatusInternalServerError, `{"message": "Internal server error"}`, "InternalServerErrorException")
	if got := ask(t, api, "POST", "/any", "https://one.example", ""); got.status != http.StatusForbidden {
		t.Errorf("POST: got status %d, want 403", got.status)
	}
	if want := (gateway.Route{Method: "OPTIONS", Path: "/any"}); api.Routes[0] != want {
		t.Errorf("route: got %+v, want %+v", api.Routes[0], want)
	}
}

func TestHTTP_CORS(t *testing.T) {
	const (
		preflight = "Allow-Credentials: true; Allow-Headers: Authorization,x-api-key; Allow-Methods: GET,POST; Allow-Origin: https://one.example; Max-Age: 3600"
		actual    = "Allow-Credentials: true; Allow-Origin: https://one.example; Expose-Headers: RateLimit,Retry-After"
	)
	tests := []struct {
		name, method, path, origin, requested string
		status                                int
		want                                  string
	}{
		{"preflight", "OPTIONS", "/items", "https://one.example", "GET", 204, preflight},
		{"preflight of no route", "OPTIONS", "/nowhere", "https://one.example", "GET", 204, preflight},
		{"preflight from elsewhere", "OPTIONS", "/items", "https://two.example", "GET", 204, ""},
		{"no preflight", "OPTIONS", "/items", "https://one.example", "", 204, ""},
		{"no origin", "OPTIONS", "/items", "", "GET", 204, ""},
		{"a route has it", "OPTIONS", "/any/x", "https://one.example", "GET", 200, preflight},
		{"request", "GET", "/items", "https://one.example", "", 200, actual},
		{"request from elsewhere", "GET", "/items", "https://one.example.org", "", 200, ""},
		{"request of no page", "GET", "/items", "", "", 200, ""},
		{"any origin of a scheme", "GET", "/items", "http://localhost:5173", "", 200, strings.ReplaceAll(actual, "https://one.example", "http://localhost:5173")},
		{"the API's own answer", "GET", "/nowhere", "https://one.example", "", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			function := says(`{"statusCode":200,"headers":{"access-control-allow-origin":"*","Access-Control-Expose-Headers":"X","X-A":"b"}}`)
			api := newAPI(t, "template/testdata/good/cors.json", gateway.HTTP, functions{"Function": function}, frozen)
			got := ask(t, api, tt.method, tt.path, tt.origin, tt.requested)
			if got.status != tt.status || controls(got) != tt.want {
				t.Errorf("status and CORS headers: got %d with %s, want %d with %s", got.status, controls(got), tt.status, tt.want)
			}
			if called := function.calls() == 1; called != (tt.status == 200) || called != (got.header.Get("X-A") == "b") {
				t.Errorf("calls and header: got %d and %v, want a call and X-A only with status 200", function.calls(), got.header)
			}
		})
	}
}

func TestHTTP_CORS_None(t *testing.T) {
	api := newAPI(t, "template/testdata/good/throttle.json", gateway.HTTP, functions{"Function": says(`{"statusCode":200,"headers":{"Access-Control-Allow-Origin":"*"}}`)}, frozen)
	if got := ask(t, api, "OPTIONS", "/", "https://one.example", "GET"); got.status != 200 || controls(got) != "Allow-Origin: *" {
		t.Errorf("status and CORS headers: got %d with %s, want 200 with Allow-Origin: *", got.status, controls(got))
	}
}
