import { App, CfnParameter, Stack } from "aws-cdk-lib";
import { AuthorizationType, MockIntegration, RestApi } from "aws-cdk-lib/aws-apigateway";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";

const app = new App();
const stack = new Stack(app, "Orders");
const api = new RestApi(stack, "Api", { deployOptions: { stageName: "prod" } });

// The limits. Upload the files of the release to the bucket first.
const limits = new CfnInclude(stack, "Limits", {
  templateFile: process.env.WEIR_TEMPLATE ?? "weir.template.json",
  parameters: {
    Namespace: "orders",
    CodeBucket: new CfnParameter(stack, "ReleaseBucket").valueAsString,
    CodePrefix: "weir/v1.0.0/",
    RestApiId: api.restApiId,
  },
});

// Each limited method has the authorizer.
api.root.addMethod("GET", new MockIntegration({ requestTemplates: { "application/json": '{"statusCode": 200}' } }), {
  authorizationType: AuthorizationType.CUSTOM,
  authorizer: { authorizerId: limits.getResource("Authorizer").ref, authorizationType: AuthorizationType.CUSTOM },
});

// API Gateway serves a snapshot of the API, so the deployment follows the authorizer and the responses.
api.latestDeployment!.node.addDependency(limits);

app.synth();
