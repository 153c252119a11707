package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
)

// The authorizer of this REST API denies every request. The template turns the denial into a 429.
func Example() {
	data, err := os.ReadFile("template/testdata/good/sample.json")
	if err != nil {
		panic(err)
	}
	parsed, err := template.Parse(data)
	if err != nil {
		panic(err)
	}
	authorizer := func(_ context.Context, e events.APIGatewayCustomAuthorizerRequestTypeRequest) (events.APIGatewayCustomAuthorizerResponse, error) {
		return events.APIGatewayCustomAuthorizerResponse{
			PrincipalID: "anonymous",
			PolicyDocument: events.APIGatewayCustomAuthorizerPolicy{Statement: []events.IAMPolicyStatement{{
				Effect: "Deny", Action: []string{"execute-api:Invoke"}, Resource: []string{e.MethodArn},
			}}},
			Context: map[string]any{"retryAfter": "7", "message": "Wait.", "limit": "20", "window": "60s", "policy": "search"},
		}, nil
	}
	handler := func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
	}
	g, err := gateway.New(parsed, gateway.Options{Functions: map[string]lambda.Handler{
		"AuthorizerFunction": lambda.NewHandler(authorizer),
		"HandlerFunction":    lambda.NewHandler(handler),
	}})
	if err != nil {
		panic(err)
	}
	rest := g.APIs()[0]
	for _, route := range rest.Routes {
		fmt.Println(rest.Kind, route.Method, route.Path)
	}
	w := httptest.NewRecorder()
	rest.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/api/v1/search", http.NoBody))
	fmt.Println(w.Code, w.Header()["Retry-After"])
	fmt.Println(w.Body)
	// Output:
	// REST POST /api/v1/data
	// REST GET /api/v1/items/{id}
	// REST POST /api/v1/login
	// REST GET /api/v1/search
	// 429 [7]
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"error":"rate_limit_exceeded","message":"Wait.","limit":20,"window":"60s","violated-policies":["search"]}
}
