package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/gateway"
)

type properties map[string]any

func ref(id string) properties { return properties{"Ref": id} }

// template returns a CloudFormation template with the API of the recording. Its logical ids are
// Api, Function (the function) and Guard (the function of the authorizer).
func (r recording) template(t testing.TB) []byte {
	t.Helper()
	resources := properties{}
	add := func(id, kind string, p properties) {
		resources[id] = properties{"Type": kind, "Properties": p}
	}
	for _, id := range []string{"Function", "Guard"} {
		timeout := cmp.Or(r.Timeout, 60)
		if id == "Guard" {
			timeout = 5
		}
		add(id, "AWS::Lambda::Function", properties{"Role": "arn:aws:iam::123456789012:role/f", "Code": properties{"ZipFile": "x"},
			"Runtime": "provided.al2023", "Handler": "bootstrap", "Timeout": timeout})
		add(id+"Permission", "AWS::Lambda::Permission", properties{"Action": "lambda:InvokeFunction",
			"FunctionName": properties{"Fn::GetAtt": []string{id, "Arn"}}, "Principal": "apigateway.amazonaws.com"})
	}
	if r.API == gateway.HTTP {
		r.addHTTP(add)
	} else {
		r.addREST(add)
	}
	content, err := json.Marshal(properties{"Resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// invocation returns the URI with which API Gateway invokes a function.
func invocation(function string) properties {
	return properties{"Fn::Join": []any{"", []any{"arn:aws:apigateway:", ref("AWS::Region"), ":lambda:path/2015-03-31/functions/",
		properties{"Fn::GetAtt": []string{function, "Arn"}}, "/invocations"}}}
}

// throttle has the settings of a stage with a throttle.
func (r recording) throttle(p properties) properties {
	if r.Burst > 0 {
		p["ThrottlingRateLimit"], p["ThrottlingBurstLimit"] = r.Rate, r.Burst
	}
	return p
}

func (r recording) addHTTP(add func(id, kind string, p properties)) {
	add("Api", "AWS::ApiGatewayV2::Api", properties{"Name": "api", "ProtocolType": "HTTP"})
	add("Stage", "AWS::ApiGatewayV2::Stage", properties{"ApiId": ref("Api"), "StageName": r.Stage, "AutoDeploy": true,
		"DefaultRouteSettings": r.throttle(properties{})})
	add("Integration", "AWS::ApiGatewayV2::Integration", properties{"ApiId": ref("Api"), "IntegrationType": "AWS_PROXY",
		"IntegrationUri": properties{"Fn::GetAtt": []string{"Function", "Arn"}}, "TimeoutInMillis": cmp.Or(r.Wait, 30_000),
		"PayloadFormatVersion": "2.0"})
	for i, key := range r.Methods {
		add(fmt.Sprintf("Route%d", i), "AWS::ApiGatewayV2::Route", properties{"ApiId": ref("Api"), "RouteKey": key,
			"Target": properties{"Fn::Join": []any{"/", []any{"integrations", ref("Integration")}}}})
	}
}

func (r recording) addREST(add func(id, kind string, p properties)) {
	api := ref("Api")
	add("Api", "AWS::ApiGateway::RestApi", properties{"Name": "api"})
	add("Deployment", "AWS::ApiGateway::Deployment", properties{"RestApiId": api})
	stage := properties{"RestApiId": api, "DeploymentId": ref("Deployment"), "StageName": r.Stage,
		"MethodSettings": []any{r.throttle(properties{"HttpMethod": "*", "ResourcePath": "/*"})}}
	add("Stage", "AWS::ApiGateway::Stage", stage)
	ids := map[string]properties{"": {"Fn::GetAtt": []string{"Api", "RootResourceId"}}}
	method := properties{"RestApiId": api, "AuthorizationType": "NONE"}
	if r.Authorizer {
		add("Authorizer", "AWS::ApiGateway::Authorizer", properties{"RestApiId": api, "Name": "a", "Type": "REQUEST",
			"AuthorizerResultTtlInSeconds": 0, "IdentitySource": "", "AuthorizerUri": invocation("Guard")})
		method["AuthorizationType"], method["AuthorizerId"] = "CUSTOM", ref("Authorizer")
	}
	for i, each := range r.Methods {
		verb, path, _ := strings.Cut(each, " ")
		p := maps.Clone(method)
		p["HttpMethod"], p["ResourceId"] = verb, addResources(add, ids, strings.TrimSuffix(path, "/"))
		p["Integration"] = properties{"Type": "AWS_PROXY", "IntegrationHttpMethod": "POST", "Uri": invocation("Function"),
			"TimeoutInMillis": cmp.Or(r.Wait, 29_000)}
		add(fmt.Sprintf("Method%d", i), "AWS::ApiGateway::Method", p)
	}
	for kind, p := range r.Responses {
		response := properties{"RestApiId": api, "ResponseType": kind}
		maps.Copy(response, p.(map[string]any))
		add("Response"+strings.ReplaceAll(kind, "_", ""), "AWS::ApiGateway::GatewayResponse", response)
	}
}

// addResources adds the resources of a path that do not exist yet, and returns a reference to the
// last one. ids has the ids of the existing resources, by path.
func addResources(add func(id, kind string, p properties), ids map[string]properties, path string) properties {
	if known, ok := ids[path]; ok {
		return known
	}
	end := strings.LastIndex(path, "/")
	parent := addResources(add, ids, path[:end])
	id := fmt.Sprintf("Resource%d", len(ids))
	add(id, "AWS::ApiGateway::Resource", properties{"RestApiId": ref("Api"), "ParentId": parent, "PathPart": path[end+1:]})
	ids[path] = ref(id)
	return ids[path]
}
