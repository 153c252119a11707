import os
import sys

from aws_cdk import App, CfnOutput, CfnParameter, NestedStack, Stack, Token
from aws_cdk.aws_apigateway import AuthorizationType, IntegrationResponse, MethodResponse, MockIntegration, RestApi, StageOptions
from aws_cdk.aws_iam import ManagedPolicy
from aws_cdk.aws_lambda import Architecture, Code, Function, FunctionUrlAuthType, LayerVersion, Runtime
from aws_cdk.cloudformation_include import CfnInclude

RELEASE = "v1.0.0" # folder in the bucket; upload the release's files to it first
TEMPLATE = os.environ.get("WEIR_TEMPLATE", "weir.template.json") # a file of the release
if not os.path.exists(TEMPLATE):
    sys.exit(f"{TEMPLATE}: not found; copy weir.template.json of the release into this folder")

app = App()
stack = Stack(app, "Orders")
api = RestApi(stack, "Api", cloud_watch_role=False, deploy_options=StageOptions(stage_name="prod"))

# The limits need a stack of their own: conditions of the released template depend on the parameter
# RestApiId. In the stack of the API, a condition would refer to a resource, which CloudFormation
# rejects.
nested = NestedStack(
    stack,
    "Limits",
    parameters={
        "Namespace": "orders",
        "CodeBucket": CfnParameter(stack, "ReleaseBucket").value_as_string,
        "CodePrefix": f"weir/{RELEASE}/",
        "RestApiId": api.rest_api_id,
    },
)
limits = CfnInclude(nested, "Template", template_file=TEMPLATE)


def output(name):
    return Token.as_string(limits.get_output(name).value)


# Give every method that should be limited this authorizer.
integration = MockIntegration(
    request_templates={"application/json": '{"statusCode": 200}'},
    integration_responses=[IntegrationResponse(status_code="200")],
)
method = api.root.add_method("GET", integration, method_responses=[MethodResponse(status_code="200")])
method.node.default_child.authorization_type = AuthorizationType.CUSTOM.value
method.node.default_child.authorizer_id = output("AuthorizerId")

# API Gateway serves a snapshot, so the deployment must come after the limits. A new release of Weir
# changes its id, and so creates a new snapshot.
api.latest_deployment.node.add_dependency(nested)
api.latest_deployment.add_to_logical_id({"release": RELEASE})

# A function URL has no authorizer that can answer 429. So the layer decides before the function's
# code runs.
quotes = Function(
    stack,
    "Quotes",
    runtime=Runtime.PYTHON_3_13,
    architecture=Architecture.ARM_64,
    handler="index.handler",
    code=Code.from_inline('def handler(event, context):\n    return {"statusCode": 200, "body": "hello"}\n'),
    layers=[LayerVersion.from_layer_version_arn(stack, "Layer", output("LayerArn"))],
    environment={
        "AWS_LAMBDA_EXEC_WRAPPER": "/opt/weir",
        "WEIR_NAMESPACE": "orders",
        "WEIR_STORE": output("Store"),
        "WEIR_RECORDS_TABLE": output("RecordsTable"),
        "WEIR_RULES_FILE": "/opt/weir-rules.json",
        "WEIR_RULES_FROM": "table",
    },
)
quotes.role.add_managed_policy(ManagedPolicy.from_managed_policy_arn(stack, "LayerPolicy", output("LayerPolicyArn")))
url = quotes.add_function_url(auth_type=FunctionUrlAuthType.NONE)

CfnOutput(stack, "QuotesUrl", value=url.url)
CfnOutput(stack, "RecordsTable", value=output("RecordsTable"))

app.synth()
