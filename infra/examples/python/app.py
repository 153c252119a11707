import os

from aws_cdk import App, CfnOutput, CfnParameter, NestedStack, Stack, Token
from aws_cdk.aws_apigateway import AuthorizationType, IntegrationResponse, MethodResponse, MockIntegration, RestApi, StageOptions
from aws_cdk.cloudformation_include import CfnInclude

RELEASE = "v1.0.0"  # the folder in the bucket; upload the files of the release to it first

app = App()
stack = Stack(app, "Orders")
api = RestApi(stack, "Api", deploy_options=StageOptions(stage_name="prod"))

# The limits are a nested stack, because the conditions of the template read its parameters. In the stack
# of the API, a condition would refer to the API itself, and CloudFormation rejects that.
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
limits = CfnInclude(nested, "Template", template_file=os.environ.get("WEIR_TEMPLATE", "weir.template.json"))

# Each limited method has the authorizer.
integration = MockIntegration(
    request_templates={"application/json": '{"statusCode": 200}'},
    integration_responses=[IntegrationResponse(status_code="200")],
)
method = api.root.add_method("GET", integration, method_responses=[MethodResponse(status_code="200")])
method.node.default_child.authorization_type = AuthorizationType.CUSTOM.value
method.node.default_child.authorizer_id = Token.as_string(limits.get_output("AuthorizerId").value)

# API Gateway serves a snapshot of the API. So the deployment follows the limits, and another release makes
# a new deployment.
api.latest_deployment.node.add_dependency(nested)
api.latest_deployment.add_to_logical_id({"release": RELEASE})

CfnOutput(stack, "RecordsTable", value=Token.as_string(limits.get_output("RecordsTable").value))

app.synth()
