package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
)

// ask sends a request with an Origin header. If requested is not empty, the request is a preflight
// for the method requested.
func ask(t *testing.T, api *gateway.API, method, path, origin, requested string) answer {
	t.Helper()
	r := request(t, method, path, http.NoBody)
	for name, value := range map[string]string{"Origin": origin, "Access-Control-Request-Method": requested} {
		if value != "" {
			r.Header.Set(name, value)
		}
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

func TestHTTP_CORS(t *testing.T) {
	const (
		preflight = "Allow-Headers: Authorization,x-api-key; Allow-Methods: GET,POST; Allow-Origin: https://one.example; Max-Age: 3600"
		actual    = "Allow-Origin: https://one.example; Expose-Headers: RateLimit,Retry-After"
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
		{"a route has it", "OPTIONS", "/any/x", "https://one.example", "GET", 200, preflight},
		{"request", "GET", "/items", "https://one.example", "", 200, actual},
		{"request from elsewhere", "GET", "/items", "https://one.example.org", "", 200, ""},
		{"request of no page", "GET", "/items", "", "", 200, ""},
		{"the API's own answer", "GET", "/nowhere", "https://one.example", "", 404, ""},
	}
	parsed := parse(t, recording{API: gateway.HTTP, Stage: "$default", Methods: []string{"GET /items", "ANY /any/{proxy+}"}}.template(t))
	parsed.HTTP.CORS = &template.CORS{
		Origins: []string{"https://one.example"}, Methods: "GET,POST", Headers: "Authorization,x-api-key", Exposed: "RateLimit,Retry-After", MaxAge: "3600",
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			function := says(`{"statusCode":200,"headers":{"access-control-allow-origin":"*","Access-Control-Expose-Headers":"X","X-A":"b"}}`)
			got := ask(t, apiOf(t, parsed, gateway.HTTP, functions{"Function": function}, frozen), tt.method, tt.path, tt.origin, tt.requested)
			if got.status != tt.status || controls(got) != tt.want {
				t.Errorf("status and CORS headers: got %d with %s, want %d with %s", got.status, controls(got), tt.status, tt.want)
			}
		})
	}
}
