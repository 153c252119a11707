package main

import (
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/lambdahttp"

	"example.com/limits/functions/api"
)

// Every route has the authorizer of the limits. The test needs the bundles of `make functions`.
func TestStack(t *testing.T) {
	defer jsii.Close()
	template := assertions.Template_FromStack(newStack(awscdk.NewApp(nil), "test", "../dist/arm64"), nil)
	template.ResourcePropertiesCountIs(jsii.String("AWS::ApiGateway::Method"), map[string]any{"AuthorizationType": "CUSTOM"},
		jsii.Number(float64(len(api.New(nil).(*lambdahttp.Mux).Routes()))))
	template.HasResourceProperties(jsii.String("AWS::ApiGateway::Authorizer"), map[string]any{"AuthorizerResultTtlInSeconds": 0})
	template.HasResourceProperties(jsii.String("AWS::ApiGateway::GatewayResponse"), map[string]any{"ResponseType": "ACCESS_DENIED",
		"StatusCode": "429"})
}
