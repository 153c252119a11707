import { App, CfnOutput, CfnParameter, NestedStack, Stack, Token } from "aws-cdk-lib";
import { AuthorizationType, MockIntegration, RestApi } from "aws-cdk-lib/aws-apigateway";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";

const release = "v1.0.0"; // the folder in the bucket; upload the files of the release to it first

const app = new App();
const stack = new Stack(app, "Orders");
const api = new RestApi(stack, "Api", { deployOptions: { stageName: "prod" } });

// The limits are a nested stack, because the conditions of the template read its parameters. In the stack
// of the API, a condition would refer to the API itself, and CloudFormation rejects that.
const nested = new NestedStack(stack, "Limits", {
  parameters: {
    Namespace: "orders",
    CodeBucket: new CfnParameter(stack, "ReleaseBucket").valueAsString,
    CodePrefix: `weir/${release}/`,
    RestApiId: api.restApiId,
  },
});
const limits = new CfnInclude(nested, "Template", { templateFile: process.env.WEIR_TEMPLATE ?? "weir.template.json" });

// Each limited method has the authorizer.
const integration = new MockIntegration({
  requestTemplates: { "application/json": '{"statusCode": 200}' },
  integrationResponses: [{ statusCode: "200" }],
});
api.root.addMethod("GET", integration, {
  methodResponses: [{ statusCode: "200" }],
  authorizationType: AuthorizationType.CUSTOM,
  authorizer: { authorizerId: Token.asString(limits.getOutput("AuthorizerId").value), authorizationType: AuthorizationType.CUSTOM },
});

// API Gateway serves a snapshot of the API. So the deployment follows the limits, and another release makes
// a new deployment.
api.latestDeployment!.node.addDependency(nested);
api.latestDeployment!.addToLogicalId({ release });

new CfnOutput(stack, "RecordsTable", { value: Token.asString(limits.getOutput("RecordsTable").value) });

app.synth();
