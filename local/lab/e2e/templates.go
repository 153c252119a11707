package e2e

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
)

type object = map[string]any

func ref(id string) object { return object{"Ref": id} }

func attribute(id, name string) object { return object{"Fn::GetAtt": []string{id, name}} }

func join(parts ...any) object { return object{"Fn::Join": []any{"", parts}} }

// resource returns a resource. after are the resources that must exist before.
func resource(kind string, properties object, after ...string) object {
	r := object{"Type": "AWS::" + kind, "Properties": properties}
	if len(after) > 0 {
		r["DependsOn"] = after
	}
	return r
}

func stackOf(description string, resources object, outputs map[string]any) []byte {
	values := object{}
	for name, value := range outputs {
		values[name] = object{"Value": value}
	}
	made, _ := json.Marshal(object{"Description": description + ", for one run of make e2e", "Resources": resources, "Outputs": values}) // maps of texts have no error
	return made
}

func apiURL(api any, stage string) object {
	return join("https://", api, ".execute-api.", ref("AWS::Region"), ".", ref("AWS::URLSuffix"), "/"+stage)
}

// mock returns a GET method that answers 200 with a body. fields are header fields of the answer, each with its source.
func mock(api, path any, body string, fields map[string]string, authorization object) object {
	sources, declared := object{}, object{}
	for name, source := range fields {
		sources["method.response.header."+name], declared["method.response.header."+name] = source, false
	}
	properties := object{
		"RestApiId": api, "ResourceId": path, "HttpMethod": "GET", "AuthorizationType": "NONE",
		"Integration": object{
			"Type": "MOCK", "RequestTemplates": object{"application/json": `{"statusCode": 200}`},
			"IntegrationResponses": []object{{"StatusCode": "200", "ResponseParameters": sources, "ResponseTemplates": object{"application/json": body}}},
		},
		"MethodResponses": []object{{"StatusCode": "200", "ResponseParameters": declared}},
	}
	maps.Copy(properties, authorization)
	return resource("ApiGateway::Method", properties)
}

// issuerTemplate returns the template of a REST API that answers with a key set. Its output is the URL.
func issuerTemplate(name string, keys []byte) []byte {
	return stackOf("The key set of an issuer", object{
		"Issuer":   resource("ApiGateway::RestApi", object{"Name": name}),
		"Get":      mock(ref("Issuer"), attribute("Issuer", "RootResourceId"), string(keys), nil, nil),
		"Snapshot": resource("ApiGateway::Deployment", object{"RestApiId": ref("Issuer")}, "Get"),
		"Stage":    resource("ApiGateway::Stage", object{"RestApiId": ref("Issuer"), "DeploymentId": ref("Snapshot"), "StageName": "keys"}),
	}, object{"URL": apiURL(ref("Issuer"), "keys")})
}

// apiTemplate returns the template of what the limits need: a REST API and the log group of its access log. newRole adds
// the role of the account with which API Gateway writes logs. As in the stack, CloudFormation retains this role.
func apiTemplate(name string, newRole bool) []byte {
	resources := object{
		"Api":       resource("ApiGateway::RestApi", object{"Name": name}),
		"AccessLog": resource("Logs::LogGroup", object{"RetentionInDays": 1}),
	}
	if newRole {
		role := resource("IAM::Role", object{
			"AssumeRolePolicyDocument": trust("apigateway.amazonaws.com"),
			"ManagedPolicyArns":        []any{join("arn:", ref("AWS::Partition"), ":iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs")},
		})
		account := resource("ApiGateway::Account", object{"CloudWatchRoleArn": attribute("LogRole", "Arn")})
		role["DeletionPolicy"], account["DeletionPolicy"] = "Retain", "Retain"
		resources["LogRole"], resources["Account"] = role, account
	}
	return stackOf("A REST API", resources, object{
		"Api": ref("Api"), "Root": attribute("Api", "RootResourceId"), "AccessLog": ref("AccessLog"), "AccessLogArn": attribute("AccessLog", "Arn"),
	})
}

func trust(service string) object {
	return object{"Version": "2012-10-17", "Statement": []object{{"Effect": "Allow", "Principal": object{"Service": service}, "Action": "sts:AssumeRole"}}}
}

// accessLine is the format of the access log: the fields that settle, and the response of API Gateway.
const accessLine = `{"receipt":"$context.authorizer.receipt","status":"$context.status","responseLength":"$context.responseLength","responseType":"$context.error.responseType"}`

// appTemplate returns the template of what uses the limits: a method of the API for all paths, and a function with the
// layer. api and limits are the outputs of the stacks before.
func appTemplate(api, limits map[string]string) ([]byte, error) {
	variables, err := layerVariables(limits)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for name, key := range contract.FieldKeys() {
		if name != httplimit.RetryAfterField {
			fields[name] = "context.authorizer." + key
		}
	}
	service := func(name string) any {
		return join("arn:", ref("AWS::Partition"), ":iam::aws:policy/service-role/"+name)
	}
	function := object{
		"Runtime": "nodejs22.x", "Architectures": []string{architecture}, "Handler": "index.handler", "Timeout": 10, "MemorySize": 512,
		"Role": attribute("Role", "Arn"), "Layers": []string{limits["LayerArn"]}, "Environment": object{"Variables": variables},
		"Code": object{"ZipFile": `exports.handler = async () => ({ statusCode: 200, body: "hello" });`},
	}
	policies := []any{service("AWSLambdaBasicExecutionRole"), limits["LayerPolicyArn"]}
	if subnets := limits["LayerSubnetIds"]; subnets != "" {
		function["VpcConfig"] = object{"SubnetIds": strings.Split(subnets, ","), "SecurityGroupIds": []string{limits["LayerSecurityGroupId"]}}
		policies[0] = service("AWSLambdaVPCAccessExecutionRole")
	}
	invoke := func(properties object) object {
		properties["FunctionName"], properties["Principal"] = ref("Function"), "*"
		return resource("Lambda::Permission", properties)
	}
	return stackOf("An application", object{
		"Proxy":    resource("ApiGateway::Resource", object{"RestApiId": api["Api"], "ParentId": api["Root"], "PathPart": "{proxy+}"}),
		"Get":      mock(api["Api"], ref("Proxy"), "{}", fields, object{"AuthorizationType": "CUSTOM", "AuthorizerId": limits["AuthorizerId"]}),
		"Snapshot": resource("ApiGateway::Deployment", object{"RestApiId": api["Api"]}, "Get"),
		"Stage": resource("ApiGateway::Stage", object{
			"RestApiId": api["Api"], "DeploymentId": ref("Snapshot"), "StageName": "e2e",
			"AccessLogSetting": object{"DestinationArn": api["AccessLogArn"], "Format": accessLine},
		}),
		"Role":     resource("IAM::Role", object{"AssumeRolePolicyDocument": trust("lambda.amazonaws.com"), "ManagedPolicyArns": policies}),
		"Function": resource("Lambda::Function", function),
		"URL":      resource("Lambda::Url", object{"TargetFunctionArn": ref("Function"), "AuthType": "NONE"}),
		// A function URL needs both permissions.
		"InvokeURL": invoke(object{"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"}),
		"Invoke":    invoke(object{"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": true}),
	}, object{"RestUrl": apiURL(api["Api"], "e2e"), "LayerUrl": attribute("URL", "FunctionUrl")}), nil
}
