package gateway_test

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

func TestREST_Response(t *testing.T) {
	const failed = `{"message": "Internal server error"}`
	tests := []struct {
		name, said string
		status     int
		body       string
	}{
		{"full", `{"statusCode":201,"headers":{"A":"b"},"multiValueHeaders":{"C":["d"]},"body":"text","isBase64Encoded":false}`, 201, "text"},
		{"nothing in it", `{}`, 200, ""},
		{"nulls", `{"statusCode":200,"headers":null,"multiValueHeaders":null,"body":null}`, 200, ""},
		{"status as text", `{"statusCode":"202"}`, 202, ""},
		{"body of HTML", `{"statusCode":200,"body":"<b>&</b>"}`, 200, "<b>&</b>"},
		{"a boolean header", `{"headers":{"A":true}}`, 200, ""},
		{"base64 without a binary Accept", `{"body":"dGVzdA==","isBase64Encoded":true}`, 200, "dGVzdA=="},
		{"unknown key", `{"statusCode":200,"cookies":[]}`, 502, failed},
		{"key in another case", `{"StatusCode":200}`, 502, failed},
		{"status no number", `{"statusCode":"OK"}`, 502, failed},
		{"status zero", `{"statusCode":0}`, 502, failed},
		{"status informational", `{"statusCode":100}`, 502, failed},
		{"status too high", `{"statusCode":600}`, 502, failed},
		{"body an object", `{"statusCode":200,"body":{}}`, 502, failed},
		{"header a list", `{"headers":{"A":["b"]}}`, 502, failed},
		{"header a number", `{"headers":{"A":1}}`, 502, failed},
		{"header null", `{"headers":{"A":null}}`, 502, failed},
		{"multi-value header no list", `{"multiValueHeaders":{"A":"b"}}`, 502, failed},
		{"text", `"hello"`, 502, failed},
		{"list", `[]`, 502, failed},
		{"null", `null`, 502, failed},
		{"nothing", ``, 502, failed},
		{"no JSON", `{"statusCode":200`, 502, failed},
		{"response that looks like an error", `{"errorMessage":"no","errorType":"E"}`, 502, failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, plain(t, functions{"Function": says(tt.said)}), "GET", "/", "")
			if tt.status == http.StatusBadGateway {
				checkFailure(t, got, tt.status, tt.body, "InternalServerErrorException")
				return
			}
			if got.status != tt.status || got.body != tt.body {
				t.Errorf("response: got %d %q, want %d %q", got.status, got.body, tt.status, tt.body)
			}
			if got.header.Get("Content-Type") != "application/json" || got.header.Get("x-amzn-RequestId") == "" ||
				got.header.Get("X-Amzn-Trace-Id") == "" || got.header.Get("x-amz-apigw-id") == "" {
				t.Errorf("response: got header %v, want application/json and ids", got.header)
			}
		})
	}
}

func TestREST_Response_FunctionFails(t *testing.T) {
	got := send(t, plain(t, functions{"Function": fails("Unauthorized")}), "GET", "/", "")
	checkFailure(t, got, http.StatusBadGateway, `{"message": "Internal server error"}`, "InternalServerErrorException")
}

func TestREST_Response_Headers(t *testing.T) {
	said := `{
		"headers": {
			"Content-Type": "text/html", "X-Once": "1", "both": "single", "Same": "a", "Flag": true,
			"WWW-Authenticate": "Bearer", "date": "yesterday", "Content-Length": "999", "Connection": "close",
			"Server": "mine", "Transfer-Encoding": "chunked", "Via": "me", "Host": "there"
		},
		"multiValueHeaders": {"Set-Cookie": ["a=1", "b=2"], "Both": ["multi1", "multi2"], "Same": ["a"]},
		"body": "x"
	}`
	got := send(t, plain(t, functions{"Function": says(said)}), "GET", "/", "")
	want := map[string][]string{
		"Content-Type":                      {"text/html"},
		"X-Once":                            {"1"},
		"Both":                              {"multi1", "multi2", "single"},
		"Same":                              {"a"},
		"Flag":                              {"true"},
		"Set-Cookie":                        {"a=1", "b=2"},
		"Content-Length":                    {"1"},
		"X-Amzn-Remapped-Www-Authenticate":  {"Bearer"},
		"X-Amzn-Remapped-Date":              {"yesterday"},
		"X-Amzn-Remapped-Content-Length":    {"999"},
		"X-Amzn-Remapped-Connection":        {"close"},
		"X-Amzn-Remapped-Server":            {"mine"},
		"Www-Authenticate":                  nil,
		"Server":                            nil,
		"Transfer-Encoding":                 nil,
		"X-Amzn-Remapped-Transfer-Encoding": nil,
		"Via":                               nil,
		"Host":                              nil,
	}
	for name, values := range want {
		if !slices.Equal(got.header[name], values) {
			t.Errorf("%s: got %q, want %q", name, got.header[name], values)
		}
	}
}

func TestREST_Response_Binary(t *testing.T) {
	picture := "\x00\xff"
	text := base64.StdEncoding.EncodeToString([]byte(picture))
	tests := []struct{ name, accept, want string }{
		{"listed", "image/png", picture},
		{"listed first", "image/png;q=0.9, text/html", picture},
		{"listed second", "text/html,image/png", text},
		{"wildcard in the list", "application/pdf", picture},
		{"wildcard in the header", "image/*", text},
		{"anything", "*/*", text},
		{"none", "", text},
	}
	said := `{"statusCode":200,"body":"` + text + `","isBase64Encoded":true}`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, plain(t, functions{"Function": says(said)}), "GET", "/", "", "Accept: "+tt.accept)
			if got.status != http.StatusOK || got.body != tt.want {
				t.Errorf("response: got %d %q, want 200 %q", got.status, got.body, tt.want)
			}
		})
	}
	got := send(t, plain(t, functions{"Function": says(`{"body":"%","isBase64Encoded":true}`)}), "GET", "/", "", "Accept: image/png")
	checkFailure(t, got, http.StatusInternalServerError, `{"message": "Internal server error"}`, "InternalServerErrorException")
}

// refusing is the authorizer context that Weir returns for a caller over the limit.
const refusing = `{
	"retryAfter": "1", "rateLimitLimit": 20, "rateLimitRemaining": 0, "rateLimitReset": "1772600779",
	"rateLimitPolicy": "\"search\";q=100;w=60", "rateLimit": "\"search\";r=0;t=1",
	"message": "Too many requests. Retry after 1 second.", "limit": "100", "window": "60s", "policy": "search"
}`

func infra(t *testing.T, guard *stub) answer {
	t.Helper()
	api := newAPI(t, "template/testdata/good/sample.json", gateway.REST, functions{
		"AuthorizerFunction": guard, "HandlerFunction": says(`{"statusCode":200}`),
	}, frozen)
	return send(t, serve(t, api), "GET", "/api/v1/search", "", "Accept: */*")
}

func checkHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), value)
		}
	}
}

func TestInfra_AccessDenied(t *testing.T) {
	got := infra(t, says(denies(refusing)))
	const want = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"error":"rate_limit_exceeded",` +
		`"message":"Too many requests. Retry after 1 second.","limit":100,"window":"60s","violated-policies":["search"]}`
	if got.status != http.StatusTooManyRequests || got.body != want {
		t.Errorf("response: got %d %s, want 429 %s", got.status, got.body, want)
	}
	checkHeaders(t, got.header, map[string]string{
		"Retry-After": "1", "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1772600779",
		"RateLimit-Policy": `"search";q=100;w=60`, "RateLimit": `"search";r=0;t=1`, "Cache-Control": "no-store",
		"Content-Type": "application/problem+json", "x-amzn-ErrorType": "AccessDeniedException",
	})
}

// If another authorizer than Weir's denies a request, its context lacks Weir's variables. The
// gateway then omits the headers that use these variables, and the body has no values of Weir.
func TestInfra_AccessDenied_OtherAuthorizer(t *testing.T) {
	got := infra(t, says(denies(`{"other":"x"}`)))
	if values, ok := got.header["Retry-After"]; ok || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("Retry-After: got %q in %v, want none", values, got.header)
	}
	if got.status != http.StatusTooManyRequests || !strings.HasSuffix(got.body, `"message":"","limit":,"window":"","violated-policies":[""]}`) {
		t.Errorf("response: got %d %s, want 429 and a body without values", got.status, got.body)
	}
}

func TestInfra_Unauthorized(t *testing.T) {
	got := infra(t, fails("Unauthorized"))
	const want = `{"type":"about:blank","title":"Unauthorized","status":401,"error":"unauthorized","message":"The credentials are missing, malformed, unknown or expired."}`
	if got.status != http.StatusUnauthorized || got.body != want {
		t.Errorf("response: got %d %s, want 401 %s", got.status, got.body, want)
	}
	checkHeaders(t, got.header, map[string]string{
		"WWW-Authenticate": "Bearer", "Cache-Control": "no-store", "Content-Type": "application/problem+json",
	})
}

func TestInfra_AuthorizerFails(t *testing.T) {
	got := infra(t, fails("out of order"))
	const want = `{"type":"about:blank","title":"Service Unavailable","status":503,"error":"authorizer_failed","message":"The request could not be authorized. Try again."}`
	if got.status != http.StatusServiceUnavailable || got.body != want {
		t.Errorf("response: got %d %s, want 503 %s", got.status, got.body, want)
	}
	checkHeaders(t, got.header, map[string]string{"Retry-After": "1", "Content-Type": "application/problem+json"})
}

// responses sends a request to the API of template/testdata/good/responses.json.
func responses(t *testing.T, guard, function *stub, path string, headers ...string) answer {
	t.Helper()
	api := newAPI(t, "template/testdata/good/responses.json", gateway.REST, functions{"Guard": guard, "Function": function}, frozen)
	return send(t, serve(t, api), "GET", path, "", headers...)
}

func TestREST_GatewayResponse_Default4XX(t *testing.T) {
	got := responses(t, says(denies(`{"said":"a \"quote\""}`)), says(`{}`), "/items/a%20b?q=1&q=2", "X-Sent: sent", "X-Query: no")
	const want = `{"type":"ACCESS_DENIED","message":"User is not authorized to access this resource with an explicit deny",` +
		`"text":"User is not authorized to access this resource with an explicit deny","path":"/test/items/a%20b","resource":"/items/{id}",` +
		`"said":"a "quote"","who":"user","color":"blue","q":"2","cost":"$5 #1"}`
	if got.status != http.StatusForbidden || got.body != want {
		t.Errorf("response: got %d %s, want 403 %s", got.status, got.body, want)
	}
	checkHeaders(t, got.header, map[string]string{
		"X-Literal": "a literal", "X-Said": `a "quote"`, "X-Header": "sent", "X-Query": "2", "X-Path": "a%20b", "X-Stage": "blue",
		"Content-Type": "text/special", "x-amzn-ErrorType": "AccessDeniedException",
	})
	if id := got.header.Get("X-Request"); id == "" || id != got.header.Get("x-amzn-RequestId") {
		t.Errorf("X-Request: got %q, want the request's id", id)
	}
}

// The first media type of Accept selects the body template.
func TestREST_GatewayResponse_Accept(t *testing.T) {
	got := responses(t, fails("Unauthorized"), says(`{}`), "/", "Accept: Application/XML;q=0.9, application/json")
	if got.status != http.StatusUnauthorized || got.body != "<m>Unauthorized</m>" {
		t.Errorf("response: got %d %s, want 401 as XML", got.status, got.body)
	}
}

// A gateway response for one type has precedence over the gateway response for all 4xx or 5xx.
func TestREST_GatewayResponse_OwnType(t *testing.T) {
	got := responses(t, says(`{}`), says(`{}`), "/a//b")
	if got.status != http.StatusNotFound || got.body != "<p>GET /test/a//b</p>" || got.header.Get("Content-Type") != "text/html" {
		t.Errorf("response: got %d %s %s, want 404 as HTML", got.status, got.header.Get("Content-Type"), got.body)
	}
}

// If DEFAULT_5XX sets only the status, the gateway uses the default body.
func TestREST_GatewayResponse_Default5XX(t *testing.T) {
	tests := []struct {
		name            string
		guard, function *stub
		body            string
	}{
		{"authorizer", fails("no"), says(`{}`), `{"message":null}`},
		{"function", says(allows(`{}`)), fails("no"), `{"message":"Internal server error"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := responses(t, tt.guard, tt.function, "/")
			if got.status != 555 || got.body != tt.body {
				t.Errorf("response: got %d %s, want 555 %s", got.status, got.body, tt.body)
			}
		})
	}
}

// The gateway keeps the function's spelling of a header name: X-RateLimit-Limit does not become
// X-Ratelimit-Limit.
func TestREST_Response_Spelling(t *testing.T) {
	api := newAPI(t, "template/testdata/good/responses.json", gateway.REST, functions{
		"Guard": says(allows("{}")), "Function": says(`{"headers":{"X-RateLimit-Limit":"1"},"multiValueHeaders":{"x-ratelimit-LIMIT":["2"]}}`),
	}, frozen)
	w := &rawHeader{header: http.Header{}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example.com/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	api.ServeHTTP(w, r)
	const name = "x-ratelimit-LIMIT"
	if got := map[string][]string(w.header)[name]; !reflect.DeepEqual(got, []string{"2", "1"}) {
		t.Errorf("header: got %v, want both values under %s", w.header, name)
	}
}

// rawHeader is a ResponseWriter that keeps the spelling of header names.
type rawHeader struct{ header http.Header }

func (w *rawHeader) Header() http.Header         { return w.header }
func (w *rawHeader) Write(b []byte) (int, error) { return len(b), nil }
func (w *rawHeader) WriteHeader(int)             {}
