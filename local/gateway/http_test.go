package gateway_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/weir-limits/weir/local/gateway"
)

func httpAPI(t testing.TB, function *stub) *httptest.Server {
	t.Helper()
	return serve(t, newAPI(t, "template/testdata/good/http.json", gateway.HTTP, functions{"Function": function, "Slow": function}, frozen))
}

func TestHTTP_Event(t *testing.T) {
	function := says(`{}`)
	server := httpAPI(t, function)
	send(t, server, "POST", "/pets/dog/a%20b%2Fc?q=1&r=&q=a+b", `{"x":1}`,
		"Host: api.example.com", "User-Agent: agent/1", "Cookie: a=1; b=2", "Cookie: c=3", "X-Many: one", "X-Many: two",
		"Content-Type: application/json", "X-Amzn-Trace-Id: Root=1-00000000-000000000000000000000000", "X-Forwarded-For: 203.0.113.9, 10.0.0.1")
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
		"version": "2.0", "routeKey": "ANY /{proxy+}", "rawPath": "/v2/pets/dog/a b/c", "rawQueryString": "q=1&r=&q=a+b",
		"cookies": ["a=1", "b=2", "c=3"],
		"headers": {
			"host": "api.example.com", "user-agent": "agent/1", "x-many": "one,two", "content-type": "application/json",
			"content-length": "7", "x-forwarded-for": "203.0.113.9, 10.0.0.1, 127.0.0.1", "x-forwarded-port": "` + u.Port() + `",
			"x-forwarded-proto": "http", "x-amzn-trace-id": "Root=1-00000000-000000000000000000000000"
		},
		"queryStringParameters": {"q": "1,a b", "r": ""},
		"requestContext": {
			"accountId": "123456789012", "apiId": "Http", "domainName": "api.example.com", "domainPrefix": "api",
			"http": {
				"method": "POST", "path": "/v2/pets/dog/a b/c", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "agent/1"
			},
			"requestId": "ID", "routeKey": "ANY /{proxy+}", "stage": "v2",
			"time": "04/Mar/2026:05:06:07 +0000", "timeEpoch": 1772600767089
		},
		"body": "{\"x\":1}", "pathParameters": {"proxy": "pets/dog/a b/c"}, "isBase64Encoded": false,
		"stageVariables": {"color": "blue"}
	}`
	sameJSON(t, ids.ReplaceAllString(string(function.event(t)), `"$1":"ID"`), want)
}

// The paths in the event do not contain the name of the default stage. The event omits the fields
// of absent parts of the request, such as the query.
func TestHTTP_Event_Empty(t *testing.T) {
	function := says(`{}`)
	api := newAPI(t, "template/testdata/good/sample.json", gateway.HTTP, functions{
		"AuthorizerFunction": says(""), "HandlerFunction": function,
	}, frozen)
	send(t, serve(t, api), "GET", "/api/v1/search", "")
	event := decode[map[string]any](t, function.event(t))
	if event["rawPath"] != "/api/v1/search" || event["rawQueryString"] != "" || event["routeKey"] != "GET /api/v1/search" {
		t.Errorf("event: got %v, want path /api/v1/search, its route and no query", event)
	}
	for _, key := range []string{"cookies", "queryStringParameters", "pathParameters", "stageVariables", "body"} {
		if value, ok := event[key]; ok {
			t.Errorf("%s: got %v, want none", key, value)
		}
	}
	trace, _ := event["headers"].(map[string]any)["x-amzn-trace-id"].(string)
	if !regexp.MustCompile(fmt.Sprintf(`^Root=1-%x-[0-9a-f]{24}$`, start.Unix())).MatchString(trace) {
		t.Errorf("trace: got %q, want a root with the time of the request", trace)
	}
}

func TestHTTP_Event_RoundTrip(t *testing.T) {
	function := says(`{}`)
	send(t, httpAPI(t, function), "GET", "/pets/dog/7?a=1&a=2", "", "Cookie: a=1", "User-Agent: agent/1", "X-A: b")
	event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
	if event.Version != "2.0" || event.RouteKey != "GET /pets/dog/{id}" || event.PathParameters["id"] != "7" ||
		event.QueryStringParameters["a"] != "1,2" || event.Cookies[0] != "a=1" || event.Headers["x-a"] != "b" ||
		event.RequestContext.HTTP.SourceIP != "127.0.0.1" || event.RequestContext.HTTP.UserAgent != "agent/1" ||
		event.RequestContext.Stage != "v2" || event.StageVariables["color"] != "blue" ||
		event.RequestContext.TimeEpoch != start.UnixMilli() || event.RequestContext.RequestID == "" {
		t.Errorf("event: got %+v, want the fields of the request", event)
	}
}

func TestHTTP_Routes(t *testing.T) {
	tests := []struct {
		method, path, key string
		parameters        map[string]string
	}{
		{"GET", "/", "GET /", nil},
		{"POST", "/", "$default", nil},
		{"GET", "/pets/dog/1", "GET /pets/dog/1", nil},
		{"POST", "/pets/dog/1", "ANY /pets/dog/{id}", map[string]string{"id": "1"}},
		{"GET", "/pets/dog/2", "GET /pets/dog/{id}", map[string]string{"id": "2"}},
		{"GET", "/pets/cat/1", "GET /pets/{proxy+}", map[string]string{"proxy": "cat/1"}},
		{"GET", "/pets/dog/1/", "GET /pets/{proxy+}", map[string]string{"proxy": "dog/1/"}},
		{"POST", "/test/5", "ANY /{proxy+}", map[string]string{"proxy": "test/5"}},
		{"GET", "/pets/owner", "GET /{who}/owner", map[string]string{"who": "pets"}}, // a route that matches the whole path has precedence over a greedy route
		{"GET", "/pets", "ANY /{proxy+}", map[string]string{"proxy": "pets"}},
		{"GET", "/%70ets/dog/1", "GET /pets/dog/1", nil},
		{"GET", "/pets/dog/a%3Fb", "GET /pets/dog/{id}", map[string]string{"id": "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			function := says(`{}`)
			send(t, httpAPI(t, function), tt.method, tt.path, "")
			event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
			if event.RouteKey != tt.key || !reflect.DeepEqual(event.PathParameters, tt.parameters) {
				t.Errorf("route and parameters: got %s %v, want %s %v", event.RouteKey, event.PathParameters, tt.key, tt.parameters)
			}
		})
	}
}

func TestHTTP_UnknownRoute(t *testing.T) {
	for _, path := range []string{"/nowhere", "/api/v1/search/", "/api/v1/items/", "/API/v1/search"} {
		function := says(`{}`)
		api := newAPI(t, "template/testdata/good/sample.json", gateway.HTTP, functions{
			"AuthorizerFunction": says(""), "HandlerFunction": function,
		}, frozen)
		got := send(t, serve(t, api), "GET", path, "")
		if got.status != http.StatusNotFound || got.body != `{"message":"Not Found"}` || function.calls() != 0 {
			t.Errorf("%s: got %d %s and %d calls, want 404 and 0 calls", path, got.status, got.body, function.calls())
		}
		if got.header.Get("Apigw-Requestid") == "" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: got header %v, want an id and application/json", path, got.header)
		}
	}
}

func TestHTTP_Body(t *testing.T) {
	tests := []struct {
		contentType string
		text        bool
	}{
		{"text/csv", true},
		{"application/json; charset=utf-8", true},
		{"application/xml", true},
		{"application/javascript", true},
		{"application/problem+json", false},
		{"application/x-www-form-urlencoded", false},
		{"multipart/form-data; boundary=x", false},
		{"application/octet-stream", false},
		{"", false},
	}
	for _, tt := range tests {
		t.Run(tt.contentType, func(t *testing.T) {
			function := says(`{}`)
			var headers []string
			if tt.contentType != "" {
				headers = append(headers, "Content-Type: "+tt.contentType)
			}
			send(t, httpAPI(t, function), "POST", "/x", "a=1", headers...)
			event := decode[events.APIGatewayV2HTTPRequest](t, function.event(t))
			want := "a=1"
			if !tt.text {
				want = base64.StdEncoding.EncodeToString([]byte(want))
			}
			if event.Body != want || event.IsBase64Encoded == tt.text {
				t.Errorf("body and isBase64Encoded: got %q %v, want %q %v", event.Body, event.IsBase64Encoded, want, !tt.text)
			}
		})
	}
}

func TestHTTP_Response(t *testing.T) {
	const failed, text, inferred = `{"message":"Internal Server Error"}`, "text/plain; charset=utf-8", "application/json"
	tests := []struct {
		name, said  string
		status      int
		contentType string
		body        string
	}{
		{"full", `{"statusCode":201,"headers":{"content-type":"text/html"},"body":"<p>"}`, 201, "text/html", "<p>"},
		{"no type", `{"statusCode":200,"body":"x"}`, 200, text, "x"},
		{"status alone", `{"statusCode":404}`, 404, text, ""},
		{"base64", `{"statusCode":200,"body":"dGVzdA==","isBase64Encoded":true}`, 200, text, "test"},
		{"inferred object", `{"message":"hello"}`, 200, inferred, `{"message":"hello"}`},
		{"inferred empty object", `{}`, 200, inferred, `{}`},
		{"inferred list", `[1, 2]`, 200, inferred, `[1, 2]`},
		{"inferred text", `"hel\"lo"`, 200, inferred, `hel"lo`},
		{"inferred number", `42`, 200, inferred, `42`},
		{"inferred null", `null`, 200, inferred, `null`},
		{"inferred half an object", `{"statusCode":200`, 200, inferred, `{"statusCode":200`},
		{"status no number", `{"statusCode":"OK"}`, 500, inferred, failed},
		{"status a fraction", `{"statusCode":200.5}`, 500, inferred, failed},
		{"status zero", `{"statusCode":0}`, 500, inferred, failed},
		{"status too high", `{"statusCode":600}`, 500, inferred, failed},
		{"body an object", `{"statusCode":200,"body":{}}`, 500, inferred, failed},
		{"bad base64", `{"statusCode":200,"body":"%","isBase64Encoded":true}`, 500, inferred, failed},
		{"header a list", `{"statusCode":200,"headers":{"a":[]}}`, 500, inferred, failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, httpAPI(t, says(tt.said)), "GET", "/", "")
			if got.status != tt.status || got.body != tt.body || got.header.Get("Content-Type") != tt.contentType {
				t.Errorf("response: got %d %s %q, want %d %s %q", got.status, got.header.Get("Content-Type"), got.body, tt.status, tt.contentType, tt.body)
			}
			if got.header.Get("Apigw-Requestid") == "" {
				t.Error("Apigw-Requestid: got none, want an id")
			}
		})
	}
}

func TestHTTP_Response_FunctionFails(t *testing.T) {
	got := send(t, httpAPI(t, fails("no")), "GET", "/", "")
	if got.status != http.StatusInternalServerError || got.body != `{"message":"Internal Server Error"}` {
		t.Errorf("response: got %d %s, want 500", got.status, got.body)
	}
}

func TestHTTP_Response_Headers(t *testing.T) {
	got := send(t, httpAPI(t, says(`{
		"statusCode": 200, "headers": {"X-One": "1", "WWW-Authenticate": "Bearer", "Content-Length": "9", "Connection": "close"},
		"cookies": ["a=1; Secure", "b=2"], "body": "x"
	}`)), "GET", "/", "")
	if got.body != "x" || got.header.Get("X-One") != "1" || got.header.Get("WWW-Authenticate") != "" || got.header.Get("X-Amzn-Remapped-Www-Authenticate") != "Bearer" ||
		got.header.Get("Content-Length") != "1" || !slices.Equal(got.header["Set-Cookie"], []string{"a=1; Secure", "b=2"}) {
		t.Errorf("answer: got %v %q, want the headers and cookies of the function", got.header, strings.TrimSpace(got.body))
	}
}
