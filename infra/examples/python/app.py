import os

from aws_cdk import App, CfnParameter, Stack
from aws_cdk.aws_apigateway import AuthorizationType, MockIntegration, RestApi, StageOptions
from aws_cdk.cloudformation_include import CfnInclude

app = App()
stack = Stack(app, "Orders")
api = RestApi(stack, "Api", deploy_options=StageOptions(stage_name="prod"))

# The limits. Upload the files of the release to the bucket first.
limits = CfnInclude(
    stack,
    "Limits",
    template_file=os.environ.get("WEIR_TEMPLATE", "weir.template.json"),
    parameters={
        "Namespace": "orders",
        "CodeBucket": CfnParameter(stack, "ReleaseBucket").value_as_string,
        "CodePrefix": "weir/v1.0.0/",
        "RestApiId": api.rest_api_id,
    },
)

# Each limited method has the authorizer.
method = api.root.add_method("GET", MockIntegration(request_templates={"application/json": '{"statusCode": 200}'}))
method.node.default_child.authorization_type = AuthorizationType.CUSTOM.value
method.node.default_child.authorizer_id = limits.get_resource("Authorizer").ref

# API Gateway serves a snapshot of the API, so the deployment follows the authorizer and the responses.
api.latest_deployment.node.add_dependency(limits)

app.synth()
