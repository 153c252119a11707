terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
    archive = {
      source  = "hashicorp/archive"
      version = "~> 2.7"
    }
  }
}

variable "folder" {
  description = "The folder on this machine with the files of the release"
  default     = "release"
}

variable "bucket" {
  description = "A bucket in the region of the API, for the files of the release"
}

locals {
  prefix = "weir/v1.0.0/" # another release needs another prefix; otherwise CloudFormation sees no change
}

resource "aws_api_gateway_rest_api" "orders" {
  name = "orders"
}

data "aws_s3_bucket" "release" {
  bucket = var.bucket
}

# The zip files of the functions, and the template, which is too long for template_body.
resource "aws_s3_object" "release" {
  for_each    = fileset(var.folder, "{*.zip,weir.template.json}")
  bucket      = var.bucket
  key         = "${local.prefix}${each.value}"
  source      = "${var.folder}/${each.value}"
  source_hash = filesha256("${var.folder}/${each.value}")
}

resource "aws_cloudformation_stack" "limits" {
  name         = "orders-limits"
  template_url = "https://${data.aws_s3_bucket.release.bucket_regional_domain_name}/${aws_s3_object.release["weir.template.json"].key}"
  capabilities = ["CAPABILITY_IAM"]
  depends_on   = [aws_s3_object.release]

  parameters = {
    Namespace  = "orders"
    CodeBucket = var.bucket
    CodePrefix = local.prefix
    RestApiId  = aws_api_gateway_rest_api.orders.id
  }
}

# Each limited method has the authorizer.
resource "aws_api_gateway_method" "get" {
  rest_api_id   = aws_api_gateway_rest_api.orders.id
  resource_id   = aws_api_gateway_rest_api.orders.root_resource_id
  http_method   = "GET"
  authorization = "CUSTOM"
  authorizer_id = aws_cloudformation_stack.limits.outputs["AuthorizerId"]
}

resource "aws_api_gateway_integration" "get" {
  rest_api_id       = aws_api_gateway_rest_api.orders.id
  resource_id       = aws_api_gateway_rest_api.orders.root_resource_id
  http_method       = aws_api_gateway_method.get.http_method
  type              = "MOCK"
  request_templates = { "application/json" = jsonencode({ statusCode = 200 }) }
}

resource "aws_api_gateway_method_response" "ok" {
  rest_api_id = aws_api_gateway_rest_api.orders.id
  resource_id = aws_api_gateway_rest_api.orders.root_resource_id
  http_method = aws_api_gateway_method.get.http_method
  status_code = "200"
}

resource "aws_api_gateway_integration_response" "ok" {
  rest_api_id = aws_api_gateway_rest_api.orders.id
  resource_id = aws_api_gateway_rest_api.orders.root_resource_id
  http_method = aws_api_gateway_method.get.http_method
  status_code = aws_api_gateway_method_response.ok.status_code
  depends_on  = [aws_api_gateway_integration.get]
}

# API Gateway serves a snapshot of the API. So a change of a method or of the limits makes a new deployment.
resource "aws_api_gateway_deployment" "orders" {
  rest_api_id = aws_api_gateway_rest_api.orders.id

  triggers = {
    snapshot = sha1(jsonencode([
      aws_api_gateway_method.get,
      aws_api_gateway_integration.get,
      aws_api_gateway_integration_response.ok,
      aws_s3_object.release["weir.template.json"].source_hash,
    ]))
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_api_gateway_stage" "prod" {
  rest_api_id   = aws_api_gateway_rest_api.orders.id
  deployment_id = aws_api_gateway_deployment.orders.id
  stage_name    = "prod"
}

output "url" {
  value = aws_api_gateway_stage.prod.invoke_url
}

output "quotes_url" {
  value = aws_apigatewayv2_api.quotes.api_endpoint
}

output "records_table" {
  value = aws_cloudformation_stack.limits.outputs["RecordsTable"]
}

# No authorizer of an HTTP API can answer 429. The layer limits the function before its code runs.
data "archive_file" "quotes" {
  type        = "zip"
  output_path = "quotes.zip"

  source {
    filename = "index.js"
    content  = "exports.handler = async () => ({ statusCode: 200, body: 'hello' });"
  }
}

resource "aws_iam_role" "quotes" {
  name_prefix = "quotes-"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "lambda.amazonaws.com" } }]
  })
}

resource "aws_iam_role_policy_attachment" "quotes_logs" {
  role       = aws_iam_role.quotes.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
}

resource "aws_iam_role_policy_attachment" "quotes_limits" {
  role       = aws_iam_role.quotes.name
  policy_arn = aws_cloudformation_stack.limits.outputs["LayerPolicyArn"]
}

resource "aws_lambda_function" "quotes" {
  function_name    = "quotes"
  role             = aws_iam_role.quotes.arn
  runtime          = "nodejs22.x"
  architectures    = ["arm64"]
  handler          = "index.handler"
  filename         = data.archive_file.quotes.output_path
  source_code_hash = data.archive_file.quotes.output_base64sha256
  layers           = [aws_cloudformation_stack.limits.outputs["LayerArn"]]

  environment {
    variables = merge(jsondecode(aws_cloudformation_stack.limits.outputs["LayerVariables"]), { AWS_LAMBDA_EXEC_WRAPPER = "/opt/weir" })
  }
}

resource "aws_apigatewayv2_api" "quotes" {
  name          = "quotes"
  protocol_type = "HTTP"
  target        = aws_lambda_function.quotes.arn
}

resource "aws_lambda_permission" "quotes" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.quotes.function_name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.quotes.execution_arn}/*"
}
