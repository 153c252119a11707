package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
)

// The default bodies of a 403 if the authorizer's policy denies the request: without a matching
// statement, and with an explicit Deny.
const (
	invalid  = `{"message":null}`
	implicit = `{"Message":"User is not authorized to access this resource"}`
	explicit = `{"Message":"User is not authorized to access this resource with an explicit deny"}`
)

// checkGuarded sends GET /guarded to an API whose authorizer is guard, and checks the response. The
// function behind the API must run only if the status is 200.
func checkGuarded(t *testing.T, guard lambda.Handler, status int, body string) {
	t.Helper()
	function := says(`{"statusCode":200}`)
	got := do(newAPI(t, guarded, functions{"Guard": guard, "Function": function}, frozen), request(t, "GET", "/guarded", http.NoBody))
	if got.status != status || got.body != body || (function.calls() == 1) != (status == http.StatusOK) {
		t.Errorf("response and calls: got %d %s and %d, want %d %s", got.status, got.body, function.calls(), status, body)
	}
}

// plainARN is the ARN of the API's methods without the method and the path.
const plainARN = "arn:aws:execute-api:us-east-1:123456789012:rest/test/"

// statements returns an authorizer whose policy has a list of statements.
func statements(list string) *stub {
	return says(`{"principalId":"u","policyDocument":{"Version":"2012-10-17","Statement":` + list + `}}`)
}

func resource(pattern string) *stub { return says(authorization("u", "Allow", pattern, "{}")) }

func TestREST_Policy(t *testing.T) {
	tests := []struct {
		name   string
		guard  *stub
		status int
		body   string
	}{
		{"allow", says(allows("{}")), 200, ""},
		{"exact ARN", resource(plainARN + "GET/guarded"), 200, ""},
		{"stage", resource(plainARN + "*"), 200, ""},
		{"other method", resource(plainARN + "POST/guarded"), 403, implicit},
		{"other stage", resource("arn:aws:execute-api:us-east-1:123456789012:rest/prod/*"), 403, implicit},
		{"longer", resource(plainARN + "GET/guarded/?"), 403, implicit},
		{"shorter", resource(plainARN + "GET/guarde"), 403, implicit},
		{"case", resource(plainARN + "get/guarded"), 403, implicit},
		{"deny", says(denies("{}")), 403, explicit},
		{"resource just not too long", resource(plainARN + strings.Repeat("x", 512-len(plainARN))), 403, implicit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkGuarded(t, tt.guard, tt.status, tt.body) })
	}
}

func TestREST_Authorizer(t *testing.T) {
	tests := []struct {
		name   string
		guard  lambda.Handler
		status int
		body   string
	}{
		{"allow without context", statements(`[{"Effect":"Allow","Action":["execute-api:Invoke"],"Resource":["*"]}]`), 200, ""},
		{"context null", says(allows("null")), 200, ""},
		{"unauthorized", fails("Unauthorized"), 401, `{"message":"Unauthorized"}`},
		{"error", fails("out of order"), 500, invalid},
		{"no policy", says(`{"principalId":"u"}`), 500, invalid},
		{"no resource", statements(`[{"Effect":"Allow","Action":["*"],"Resource":[]}]`), 500, invalid},
		{"resource too long", resource(plainARN + strings.Repeat("x", 513-len(plainARN))), 500, invalid},
		{"context an object", says(allows(`{"a":{}}`)), 500, invalid},
		{"context a list", says(allows(`{"a":[]}`)), 500, invalid},
		{"context a null", says(allows(`{"a":null}`)), 500, invalid},
		{"panic", &stub{answer: func(context.Context, []byte) ([]byte, error) { panic("no") }}, 500, invalid},
		{"Unauthorized in Lambda's error format", &stub{answer: func(context.Context, []byte) ([]byte, error) {
			return nil, messages.InvokeResponse_Error{Message: "Unauthorized", Type: "errorString"}
		}}, 401, `{"message":"Unauthorized"}`},
		{"unauthorized by lambda.NewHandler", lambda.NewHandler(func(context.Context, events.APIGatewayCustomAuthorizerRequestTypeRequest) (any,
			error) {
			return nil, errors.New("Unauthorized")
		}), 401, `{"message":"Unauthorized"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkGuarded(t, tt.guard, tt.status, tt.body) })
	}
}

func TestREST_MethodARN_TooLong(t *testing.T) {
	guard := says(allows("{}"))
	api := newAPI(t, guarded, functions{"Guard": guard}, frozen)
	const limit = 1600
	fits := limit - len(plainARN+"GET/guarded/")
	if got := do(api, request(t, "GET", "/guarded/"+strings.Repeat("x", fits), http.NoBody)); got.status != http.StatusOK {
		t.Errorf("%d bytes: got status %d, want 200", limit, got.status)
	}
	got := do(api, request(t, "GET", "/guarded/"+strings.Repeat("x", fits+1), http.NoBody))
	if got.status != http.StatusRequestURITooLong || guard.calls() != 1 {
		t.Errorf("%d bytes: got status %d and %d calls, want 414 and 1", limit+1, got.status, guard.calls())
	}
}
