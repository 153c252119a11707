package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/weir-limits/weir/local/gateway"
)

const plainARN = "arn:aws:execute-api:us-east-1:123456789012:Api/test/"

// requestHeaders are the headers that the test request sends; restEvent contains them.
var requestHeaders = []string{
	"Host: api.example.com", "User-Agent: agent/1", "Cookie: a=1; b=2", "X-Many: one", "X-Many: two",
	"X-Forwarded-For: 203.0.113.9", "X-Amzn-Trace-Id: Root=1-00000000-000000000000000000000000", "Te: trailers",
}

// restEvent has the fields that both events (authorizer and integration) contain for the request
// GET /guarded/a%20b?q=1&q=a+b.
const restEvent = `
	"resource": "/guarded/{proxy+}", "path": "/guarded/a%20b/", "httpMethod": "GET",
	"headers": {
		"Host": "api.example.com", "User-Agent": "agent/1", "Cookie": "a=1; b=2", "X-Many": "two",
		"X-Forwarded-For": "203.0.113.9, 127.0.0.1", "X-Forwarded-Port": "PORT", "X-Forwarded-Proto": "http",
		"X-Amzn-Trace-Id": "Root=1-00000000-000000000000000000000000"
	},
	"multiValueHeaders": {
		"Host": ["api.example.com"], "User-Agent": ["agent/1"], "Cookie": ["a=1; b=2"], "X-Many": ["one", "two"],
		"X-Forwarded-For": ["203.0.113.9, 127.0.0.1"], "X-Forwarded-Port": ["PORT"], "X-Forwarded-Proto": ["http"],
		"X-Amzn-Trace-Id": ["Root=1-00000000-000000000000000000000000"]
	},
	"queryStringParameters": {"q": "a b"}, "multiValueQueryStringParameters": {"q": ["1", "a b"]},
	"pathParameters": {"proxy": "a%20b"}, "stageVariables": {"color": "blue"},
	"requestContext": {
		"accountId": "123456789012", "apiId": "Api", AUTHORIZER "deploymentId": "Deployment",
		"domainName": "api.example.com", "domainPrefix": "api", "extendedRequestId": "ID", "httpMethod": "GET",
		"identity": {
			"accessKey": null, "accountId": null, "caller": null, "cognitoAuthenticationProvider": null,
			"cognitoAuthenticationType": null, "cognitoIdentityId": null, "cognitoIdentityPoolId": null,
			"principalOrgId": null, "sourceIp": "127.0.0.1", "user": null, "userAgent": "agent/1", "userArn": null
		},
		"path": "/test//guarded/a%20b/", "protocol": "HTTP/1.1", "requestId": "ID",
		"requestTime": "04/Mar/2026:05:06:07 +0000", "requestTimeEpoch": 1772600767089,
		"resourceId": "GuardedProxy", "resourcePath": "/guarded/{proxy+}", "stage": "test"
	}`

var ids = regexp.MustCompile(`"(requestId|extendedRequestId)":"(?:[0-9a-f-]{36}|[0-9A-Za-z_-]{15}=)"`)

func TestREST_Events(t *testing.T) {
	guard, function := says(allows(`{"n":1.50,"b":true,"s":"<text>"}`)), says(`{"statusCode":200}`)
	server := plain(t, functions{"Guard": guard, "Function": function})
	got := send(t, server, "GET", "//guarded/a%20b/?q=1&q=a+b", "", requestHeaders...)
	if got.status != http.StatusOK {
		t.Fatalf("response: got %d %s, want 200", got.status, got.body)
	}
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	wanted := func(event, authorizer string) string {
		return strings.NewReplacer("PORT", u.Port(), "AUTHORIZER", authorizer).Replace(event)
	}
	sameJSON(t, ids.ReplaceAllString(string(guard.event(t)), `"$1":"ID"`), wanted(
		`{"type": "REQUEST", "methodArn": "`+plainARN+`GET/guarded/a%20b/", `+restEvent+`}`, ""))
	sameJSON(t, ids.ReplaceAllString(string(function.event(t)), `"$1":"ID"`), wanted(
		`{`+restEvent+`, "body": null, "isBase64Encoded": false}`,
		`"authorizer": {"principalId": "user", "integrationLatency": 0, "n": "1.50", "b": "true", "s": "<text>"},`))
}

// The event types of github.com/aws/aws-lambda-go can decode the events without losing a field.
func TestREST_Events_RoundTrip(t *testing.T) {
	guard, function := says(allows(`{}`)), says(`{"statusCode":200}`)
	send(t, plain(t, functions{"Guard": guard, "Function": function}), "PUT", "/guarded/x?q=1", "body",
		"Host: api.example.com", "User-Agent: agent/1")

	asked := decode[events.APIGatewayCustomAuthorizerRequestTypeRequest](t, guard.event(t))
	if asked.Type != "REQUEST" || asked.MethodArn != plainARN+"PUT/guarded/x" || asked.HTTPMethod != "PUT" ||
		asked.Headers["Host"] != "api.example.com" || asked.QueryStringParameters["q"] != "1" ||
		asked.PathParameters["proxy"] != "x" || asked.RequestContext.Identity.SourceIP != "127.0.0.1" ||
		asked.RequestContext.Path != "/test/guarded/x" || asked.StageVariables["color"] != "blue" {
		t.Errorf("event of the authorizer: got %+v, want the fields of the request", asked)
	}
	invoked := decode[events.APIGatewayProxyRequest](t, function.event(t))
	if invoked.Resource != "/guarded/{proxy+}" || invoked.Path != "/guarded/x" || invoked.Body != "body" ||
		invoked.RequestContext.Authorizer["principalId"] != "user" || invoked.RequestContext.Stage != "test" ||
		invoked.RequestContext.RequestTimeEpoch != start.UnixMilli() || invoked.RequestContext.RequestID == "" ||
		invoked.RequestContext.DomainPrefix != "api" || invoked.MultiValueHeaders["Host"][0] != "api.example.com" {
		t.Errorf("event of the function: got %+v, want the fields of the request", invoked)
	}
	if length, ok := invoked.Headers["Content-Length"]; ok {
		t.Errorf("Content-Length of the function's event: got %s, want none", length)
	}
}

// If the request has no query or no path parameters, their map is {} in the authorizer's event and
// null in the integration's event.
func TestREST_Events_Empty(t *testing.T) {
	guard, function := says(allows(`{}`)), says(`{"statusCode":200}`)
	server := serve(t, newAPI(t, "template/testdata/good/sample.json", gateway.REST, functions{
		"AuthorizerFunction": guard, "HandlerFunction": function,
	}, frozen))
	send(t, server, "GET", "/api/v1/search", "")
	for _, key := range []string{"queryStringParameters", "multiValueQueryStringParameters", "pathParameters", "stageVariables"} {
		asked := decode[map[string]json.RawMessage](t, guard.event(t))
		if got := string(asked[key]); got != "{}" {
			t.Errorf("authorizer: %s: got %q, want {}", key, got)
		}
		invoked := decode[map[string]json.RawMessage](t, function.event(t))
		if got := string(invoked[key]); got != "null" {
			t.Errorf("function: %s: got %q, want null", key, got)
		}
	}
}

func TestREST_Events_Latency(t *testing.T) {
	function := says(`{"statusCode":200}`)
	now := start
	steps := func() time.Time { now = now.Add(7 * time.Millisecond); return now }
	api := newAPI(t, "template/testdata/good/plain.json", gateway.REST, functions{
		"Guard": says(allows(`{}`)), "Function": function, "Slow": function,
	}, steps)
	send(t, serve(t, api), "GET", "/guarded", "")
	got := decode[events.APIGatewayProxyRequest](t, function.event(t)).RequestContext.Authorizer["integrationLatency"]
	if got != 7.0 {
		t.Errorf("integrationLatency: got %v, want 7", got)
	}
}

func TestREST_Routes(t *testing.T) {
	tests := []struct {
		method, path string
		resource     string // resource of the matched method; empty if the gateway answers 403
		parameters   map[string]string
	}{
		{"GET", "/", "/", nil},
		{"GET", "//", "/", nil},
		{"POST", "/", "", nil},
		{"GET", "/items", "/items", nil},
		{"GET", "/items/", "/items", nil},
		{"OPTIONS", "/items", "/items", nil},
		{"HEAD", "/items", "", nil},
		{"GET", "/Items", "", nil},
		{"GET", "/%69tems", "/items", nil},
		{"GET", "/items/7", "/items/{id}", map[string]string{"id": "7"}},
		{"GET", "/items/a%2Fb+c", "/items/{id}", map[string]string{"id": "a%2Fb+c"}},
		{"GET", "/items//", "/items", nil},
		{"PUT", "/items/7/parts/8", "/items/{id}/parts/{part}", map[string]string{"id": "7", "part": "8"}},
		{"PUT", "/items//parts/8", "", nil},
		{"GET", "/items/7/parts", "", nil},
		{"GET", "/items/7/nothing", "", nil},
		{"POST", "/items/special", "/items/special", nil},
		{"GET", "/items/special", "", nil}, // a literal segment has precedence over {id}
		{"PUT", "/items/special/parts/8", "", nil},
		{"DELETE", "/open/a", "/open/{proxy+}", map[string]string{"proxy": "a"}},
		{"GET", "/open/a//b/%C3%A9/", "/open/{proxy+}", map[string]string{"proxy": "a//b/%C3%A9"}},
		{"TRACE", "/open/a", "", nil}, // ANY matches only the seven methods that API Gateway supports
		{"GET", "/open", "", nil},
		{"GET", "/nowhere", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			function := says(`{"statusCode":200}`)
			got := send(t, plain(t, functions{"Function": function}), tt.method, tt.path, "")
			if tt.resource == "" {
				if got.status != http.StatusForbidden || function.calls() != 0 {
					t.Errorf("status and calls: got %d and %d, want 403 and 0", got.status, function.calls())
				}
				return
			}
			event := decode[events.APIGatewayProxyRequest](t, function.event(t))
			if event.Resource != tt.resource || !reflect.DeepEqual(event.PathParameters, tt.parameters) {
				t.Errorf("resource and parameters: got %s %v, want %s %v", event.Resource, event.PathParameters, tt.resource, tt.parameters)
			}
		})
	}
}

func TestREST_UnknownRoute(t *testing.T) {
	got := send(t, plain(t, functions{}), "GET", "/nowhere", "")
	checkFailure(t, got, http.StatusForbidden, `{"message":"Missing Authentication Token"}`, "MissingAuthenticationTokenException")
}

// checkFailure checks the answer to a failure that has no gateway response in the template.
func checkFailure(t *testing.T, got answer, status int, body, code string) {
	t.Helper()
	if got.status != status || got.body != body {
		t.Errorf("response: got %d %s, want %d %s", got.status, got.body, status, body)
	}
	if got.header.Get("x-amzn-ErrorType") != code || got.header.Get("Content-Type") != "application/json" ||
		got.header.Get("x-amzn-RequestId") == "" || got.header.Get("x-amz-apigw-id") == "" {
		t.Errorf("response: got header %v, want x-amzn-ErrorType %s, ids and application/json", got.header, code)
	}
}

func TestREST_Body(t *testing.T) {
	tests := []struct {
		name, body, contentType string
		want                    string // body in the event; empty means null
		base64                  bool
	}{
		{"none", "", "text/plain", "", false},
		{"text", "a\"b<", "text/plain", "a\"b<", false},
		{"no type", "text", "", "text", false},
		{"listed", "\x00\xff", "image/png", base64.StdEncoding.EncodeToString([]byte("\x00\xff")), true},
		{"listed with a wildcard", "{}", "application/JSON; charset=utf-8", "e30=", true},
		{"not listed", "x", "image/jpeg", "x", false},
		{"not listed and not UTF-8", "\xff", "image/jpeg", "\uFFFD", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			function := says(`{"statusCode":200}`)
			var headers []string
			if tt.contentType != "" {
				headers = append(headers, "Content-Type: "+tt.contentType)
			}
			send(t, plain(t, functions{"Function": function}), "POST", "/open/x", tt.body, headers...)
			event := decode[struct {
				Body            *string
				IsBase64Encoded bool
			}](t, function.event(t))
			if tt.want == "" {
				if event.Body != nil {
					t.Errorf("body: got %q, want null", *event.Body)
				}
				return
			}
			if event.Body == nil || *event.Body != tt.want || event.IsBase64Encoded != tt.base64 {
				t.Errorf("body and isBase64Encoded: got %s, want %q %v", function.event(t), tt.want, tt.base64)
			}
		})
	}
}

func TestREST_Context(t *testing.T) {
	var deadline bool
	var lc *lambdacontext.LambdaContext
	function := &stub{answer: func(ctx context.Context, _ []byte) ([]byte, error) {
		_, deadline = ctx.Deadline()
		lc, _ = lambdacontext.FromContext(ctx)
		return []byte(`{}`), nil
	}}
	send(t, plain(t, functions{"Function": function}), "GET", "/", "")
	if !deadline || lc == nil || lc.AwsRequestID == "" || lc.InvokedFunctionArn != "arn:aws:lambda:us-east-1:123456789012:function:Function" {
		t.Errorf("deadline and context: got %v and %+v, want a deadline and the function's ARN", deadline, lc)
	}
}
