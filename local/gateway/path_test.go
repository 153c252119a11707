package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
)

const (
	function = `{"Type":"AWS::Lambda::Function","Properties":{"Role":"arn:aws:iam::123456789012:role/f","Code":{"ZipFile":"x"},` +
		`"Runtime":"provided.al2023","Handler":"bootstrap"}}`
	owned = `{"Resources":{"Authorizer":` + function + `,"Owner":` + function + `,"Handler":` + function + `,
	"P1":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"lambda:InvokeFunction","FunctionName":{"Fn::GetAtt":["Authorizer","Arn"]},
		"Principal":"apigateway.amazonaws.com"}},
	"P2":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"lambda:InvokeFunction","FunctionName":{"Fn::GetAtt":["Handler","Arn"]},
		"Principal":"apigateway.amazonaws.com"}},
	"P3":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"lambda:InvokeFunction","FunctionName":{"Fn::GetAtt":["Owner","Arn"]},
		"Principal":"apigateway.amazonaws.com"}},
	"Rest":{"Type":"AWS::ApiGateway::RestApi","Properties":{"Name":"rest"}},
	"Deployment":{"Type":"AWS::ApiGateway::Deployment","Properties":{"RestApiId":{"Ref":"Rest"}}},
	"Stage":{"Type":"AWS::ApiGateway::Stage","Properties":{"RestApiId":{"Ref":"Rest"},"DeploymentId":{"Ref":"Deployment"},"StageName":"dev"}},
	"Guard":{"Type":"AWS::ApiGateway::Authorizer","Properties":{"RestApiId":{"Ref":"Rest"},"Name":"a","Type":"REQUEST",
		"AuthorizerResultTtlInSeconds":0,"IdentitySource":"",
		"AuthorizerUri":"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/` +
		`arn:aws:lambda:us-east-1:123456789012:function:Authorizer/invocations"}},
	"OwnGuard":{"Type":"AWS::ApiGateway::Authorizer","Properties":{"RestApiId":{"Ref":"Rest"},"Name":"b","Type":"REQUEST",
		"AuthorizerResultTtlInSeconds":0,"IdentitySource":"",
		"AuthorizerUri":"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/` +
		`arn:aws:lambda:us-east-1:123456789012:function:Owner/invocations"}},
	"Items":{"Type":"AWS::ApiGateway::Resource","Properties":{"RestApiId":{"Ref":"Rest"},"ParentId":{"Fn::GetAtt":["Rest","RootResourceId"]},
		"PathPart":"items"}},
	"Item":{"Type":"AWS::ApiGateway::Resource","Properties":{"RestApiId":{"Ref":"Rest"},"ParentId":{"Ref":"Items"},"PathPart":"{id}"}},
	"Admin":{"Type":"AWS::ApiGateway::Resource","Properties":{"RestApiId":{"Ref":"Rest"},"ParentId":{"Fn::GetAtt":["Rest","RootResourceId"]},
		"PathPart":"admin"}},
	"GetItem":{"Type":"AWS::ApiGateway::Method","Properties":{"RestApiId":{"Ref":"Rest"},"ResourceId":{"Ref":"Item"},"HttpMethod":"GET",
		"AuthorizationType":"CUSTOM","AuthorizerId":{"Ref":"Guard"},
		"Integration":{"Type":"AWS_PROXY","IntegrationHttpMethod":"POST",
			"Uri":"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/` +
		`arn:aws:lambda:us-east-1:123456789012:function:Handler/invocations"}}},
	"GetAdmin":{"Type":"AWS::ApiGateway::Method","Properties":{"RestApiId":{"Ref":"Rest"},"ResourceId":{"Ref":"Admin"},"HttpMethod":"GET",
		"AuthorizationType":"CUSTOM","AuthorizerId":{"Ref":"OwnGuard"},
		"Integration":{"Type":"AWS_PROXY","IntegrationHttpMethod":"POST",
			"Uri":"arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/` +
		`arn:aws:lambda:us-east-1:123456789012:function:Handler/invocations"}}},
	"Web":{"Type":"AWS::ApiGatewayV2::Api","Properties":{"Name":"web","ProtocolType":"HTTP"}},
	"WebStage":{"Type":"AWS::ApiGatewayV2::Stage","Properties":{"ApiId":{"Ref":"Web"},"StageName":"$default","AutoDeploy":true}},
	"WebHandler":{"Type":"AWS::ApiGatewayV2::Integration","Properties":{"ApiId":{"Ref":"Web"},"IntegrationType":"AWS_PROXY",
		"PayloadFormatVersion":"2.0","IntegrationUri":{"Fn::GetAtt":["Handler","Arn"]}}},
	"WebRoute":{"Type":"AWS::ApiGatewayV2::Route","Properties":{"ApiId":{"Ref":"Web"},"RouteKey":"GET /public/{proxy+}",
		"AuthorizationType":"NONE","Target":{"Fn::Join":["",["integrations/",{"Ref":"WebHandler"}]]}}}}}`
)

// An API has the owner's authorizer, or no route, for a path of the handler. No spelling of another route's path
// reaches this path of the handler, because Weir does not change the path of a request.
func TestAttack_otherRoute(t *testing.T) {
	parsed, err := template.Parse([]byte(owned))
	if err != nil {
		t.Fatal(err)
	}
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":1000,"window":"1m","per":["ip"]}}}]}`),
		rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{Logger: logger})),
		Rules:   live.Fixed(r), Logger: logger,
		Identifier: caller.New(caller.Options{}), Clock: frozen, BehindAuthorizer: true,
	}
	mux, reached, asked := http.NewServeMux(), 0, 0
	mux.HandleFunc("/admin", func(http.ResponseWriter, *http.Request) { reached++ })
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/public/{rest...}", func(http.ResponseWriter, *http.Request) {})
	owner := &stub{answer: func(context.Context, []byte) ([]byte, error) { asked++; return []byte(denies(`{}`)), nil }}
	g, err := gateway.New(parsed, gateway.Options{Functions: functions{"Authorizer": lambdahttp.NewAuthorizer(e), "Owner": owner,
		"Handler": lambdahttp.NewHandler(e, mux)}, Clock: frozen, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	for i, paths := range [][]string{
		{"/admin", "/items/..%2Fadmin", "/items/%2e%2e%2Fadmin", "/items/.%2E%2f%61dmin", "/items/%2Fadmin", "//admin", "/%61dmin"},
		{"/admin", "/public/../admin", "/public/%2e%2e/admin", "/public/..%2Fadmin", "/public/%252e%252e/admin", "/public/x/%2e%2e/%2e%2e/admin",
			"/public%2F..%2Fadmin"},
	} {
		api := g.APIs()[i]
		for _, path := range paths {
			do(api, rawRequest(t, "GET "+path, "api.example.com", "192.0.2.1:1"))
			if reached > 0 {
				t.Errorf("%s API: %s: got a call of /admin after %d calls of the owner's authorizer, want no call", api.Kind, path, asked)
				reached = 0
			}
		}
	}
}
