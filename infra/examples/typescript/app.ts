import { existsSync } from "node:fs";

import { App, CfnOutput, CfnParameter, NestedStack, Stack, Token } from "aws-cdk-lib";
import { AuthorizationType, MockIntegration, RestApi } from "aws-cdk-lib/aws-apigateway";
import { ManagedPolicy } from "aws-cdk-lib/aws-iam";
import { Architecture, Code, Function, FunctionUrlAuthType, LayerVersion, Runtime } from "aws-cdk-lib/aws-lambda";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";

const release = "v1.0.0"; // folder in the bucket; upload the release's files to it first
const template = process.env.WEIR_TEMPLATE ?? "weir.template.json"; // a file of the release
if (!existsSync(template)) {
  console.error(`${template}: not found; copy weir.template.json of the release into this folder`);
  process.exit(1);
}

const app = new App();
const stack = new Stack(app, "Orders");
const api = new RestApi(stack, "Api", { cloudWatchRole: false, deployOptions: { stageName: "prod" } });

// The limits need a stack of their own: conditions of the released template depend on the parameter
// RestApiId. In the stack of the API, a condition would refer to a resource, which CloudFormation
// rejects.
const nested = new NestedStack(stack, "Limits", {
  parameters: {
    Namespace: "orders",
    CodeBucket: new CfnParameter(stack, "ReleaseBucket").valueAsString,
    CodePrefix: `weir/${release}/`,
    RestApiId: api.restApiId,
  },
});
const limits = new CfnInclude(nested, "Template", { templateFile: template });
const output = (name: string) => Token.asString(limits.getOutput(name).value);

// Give every method that should be limited this authorizer.
const integration = new MockIntegration({
  requestTemplates: { "application/json": '{"statusCode": 200}' },
  integrationResponses: [{ statusCode: "200" }],
});
api.root.addMethod("GET", integration, {
  methodResponses: [{ statusCode: "200" }],
  authorizationType: AuthorizationType.CUSTOM,
  authorizer: { authorizerId: output("AuthorizerId"), authorizationType: AuthorizationType.CUSTOM },
});

// API Gateway serves a snapshot, so the deployment must come after the limits. A new release of
// Weir changes its id, and so creates a new snapshot.
api.latestDeployment!.node.addDependency(nested);
api.latestDeployment!.addToLogicalId({ release });

// A function URL has no authorizer that can answer 429. So the layer decides before the function's
// code runs.
const quotes = new Function(stack, "Quotes", {
  runtime: Runtime.NODEJS_22_X,
  architecture: Architecture.ARM_64,
  handler: "index.handler",
  code: Code.fromInline('exports.handler = async () => ({ statusCode: 200, body: "hello" });'),
  layers: [LayerVersion.fromLayerVersionArn(stack, "Layer", output("LayerArn"))],
  environment: {
    AWS_LAMBDA_EXEC_WRAPPER: "/opt/weir",
    WEIR_NAMESPACE: "orders",
    WEIR_STORE: output("Store"),
    WEIR_RECORDS_TABLE: output("RecordsTable"),
    WEIR_RULES_FILE: "/opt/weir-rules.json",
    WEIR_RULES_FROM: "table",
  },
});
quotes.role!.addManagedPolicy(ManagedPolicy.fromManagedPolicyArn(stack, "LayerPolicy", output("LayerPolicyArn")));
const url = quotes.addFunctionUrl({ authType: FunctionUrlAuthType.NONE });

new CfnOutput(stack, "QuotesUrl", { value: url.url });
new CfnOutput(stack, "RecordsTable", { value: output("RecordsTable") });

app.synth();
