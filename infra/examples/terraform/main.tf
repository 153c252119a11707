terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

variable "release" {
  description = "The folder with the files of the release"
  default     = "release"
}

variable "bucket" {
  description = "The bucket for the files of the release"
}

resource "aws_api_gateway_rest_api" "orders" {
  name = "orders"
}

# The zip files of the functions, and the template, which is too long for template_body.
resource "aws_s3_object" "release" {
  for_each    = fileset(var.release, "{*.zip,weir.template.json}")
  bucket      = var.bucket
  key         = "weir/v1.0.0/${each.value}"
  source      = "${var.release}/${each.value}"
  source_hash = filesha256("${var.release}/${each.value}")
}

resource "aws_cloudformation_stack" "limits" {
  name         = "orders-limits"
  template_url = "https://${var.bucket}.s3.amazonaws.com/${aws_s3_object.release["weir.template.json"].key}"
  capabilities = ["CAPABILITY_IAM"]
  depends_on   = [aws_s3_object.release]

  parameters = {
    Namespace  = "orders"
    CodeBucket = var.bucket
    CodePrefix = "weir/v1.0.0/"
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

# API Gateway serves a snapshot of the API, so a change of the limits makes a new deployment.
resource "aws_api_gateway_deployment" "orders" {
  rest_api_id = aws_api_gateway_rest_api.orders.id
  depends_on  = [aws_api_gateway_integration.get]
  triggers    = { limits = aws_s3_object.release["weir.template.json"].source_hash }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_api_gateway_stage" "prod" {
  rest_api_id   = aws_api_gateway_rest_api.orders.id
  deployment_id = aws_api_gateway_deployment.orders.id
  stage_name    = "prod"
}
