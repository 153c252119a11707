package gateway_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// golden returns the stack in the golden template.
func golden(t *testing.T) *gateway.Stack {
	t.Helper()
	s, err := gateway.ReadStack(storetest.Must(os.ReadFile("../../infra/golden/dynamodb.template.json")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The stack has both functions with their variables, both stages with their throttle, and the six gateway responses.
func TestReadStack(t *testing.T) {
	s := golden(t)
	if s.Authorizer.Environment["REFUSAL"] != "problem" || s.Authorizer.Timeout != 5*time.Second || s.Handler.Timeout != 10*time.Second ||
		s.Handler.Environment["BEHIND_AUTHORIZER"] != "true" || s.REST.Name != "dev" || s.HTTP.Name != gateway.DefaultStage ||
		s.REST.Throttle.Capacity() != 600 || s.HTTP.Throttle.Capacity() != 600 || len(s.Responses) != 6 {
		t.Errorf("got %+v", s)
	}
	for _, text := range []string{"{", `{"Resources":{"A":{"Type":"AWS::Lambda::Function","Properties":{"Timeout":"x"}}}}`,
		`{"Resources":{"A":{"Type":"AWS::ApiGatewayV2::Stage","Properties":{"DefaultRouteSettings":{"ThrottlingBurstLimit":-1}}}}}`} {
		if s, err := gateway.ReadStack([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "template: ") {
			t.Errorf("%s: got %+v, error %v, want an error", text, s, err)
		}
	}
}

// An API has each route once, and one name of a parameter at each place.
func TestNew_routes(t *testing.T) {
	for routes, valid := range map[string]bool{
		"GET /a/{id},POST /a/{id},GET /a/{id}/b,GET /a/{rest+},ANY /": true, "GET /a,GET /a": false, "FETCH /a": false, "GET a": false,
		"GET /a b": false, "GET /{a+}/b": false, "GET /{a}/b,GET /{c}": false,
	} {
		if _, err := gateway.New(golden(t), strings.Split(routes, ","), gateway.Options{}); (err == nil) != valid {
			t.Errorf("%s: got error %v, want valid %t", routes, err, valid)
		}
	}
}

// A literal has precedence in a REST API even if it lacks the method. In an HTTP API, a full match and the method have.
func TestRoutes(t *testing.T) {
	routes := []string{"GET /a/{id}", "ANY /a/{id}", "POST /a/b", "GET /a/{rest+}", "GET /c/{rest+}", "GET /c/{x}/d", "ANY /{y}/{z}"}
	for _, c := range []struct{ request, rest, web string }{
		{"GET /a/1", "/a/{id}", "GET /a/{id}"}, {"PUT /a/1", "/a/{id}", "ANY /a/{id}"}, {"GET /a/b", "/a/{rest+}", "GET /a/{id}"},
		{"PUT /a/b", "", "ANY /a/{id}"}, {"POST /a/b", "/a/b", "POST /a/b"}, {"GET /c/1/d", "/c/{x}/d", "GET /c/{x}/d"},
		{"GET /c/1", "/c/{rest+}", "ANY /{y}/{z}"}, {"GET /c/1/e", "/c/{rest+}", "GET /c/{rest+}"}, {"GET /a/", "", "GET /a/{rest+}"},
		{"QUERY /x/y", "", "ANY /{y}/{z}"},
	} {
		handler := says(`{"statusCode":200}`)
		apis := apisOf(t, everything, routes, functions{"Function": handler}, frozen)
		method, path, _ := strings.Cut(c.request, " ")
		for kind, want := range map[gateway.Kind]string{gateway.REST: c.rest, gateway.HTTP: c.web} {
			handler.events = nil
			do(apis[kind], request(t, method, path, http.NoBody))
			got := ""
			if len(handler.events) > 0 {
				e := decode[struct{ Resource, RouteKey string }](t, handler.events[0])
				got = e.Resource + e.RouteKey
			}
			if got != want || apis[kind].Serves(method, path) != (want != "") {
				t.Errorf("%s API: %s: got the route %q, want %q", kind, c.request, got, want)
			}
		}
	}
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
		rest := apisOf(t, golden(t), everywhere, functions{"Guard": tt.guard, "Function": says("")}, frozen)[gateway.REST]
		got := do(rest, request(t, "GET", "/api/v1/search", http.NoBody))
		if got.status != tt.status || !strings.Contains(got.body, tt.body) {
			t.Errorf("answer: got %d %s, want %d with %s", got.status, got.body, tt.status, tt.body)
		}
		checkHeaders(t, got.header, tt.header)
		if _, sent := got.header["Retry-After"]; sent != (tt.header["Retry-After"] != "") {
			t.Errorf("Retry-After: got it (%t), want no field without a value", sent)
		}
	}
}
