package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/verify/account"
)

// maxAttempts is the maximum number of attempts of a call. IAM and API Gateway permit few calls a second.
const maxAttempts = 10

// openStack reads a stack with the AWS configuration of this process. An empty region is that of the configuration.
func openStack(ctx context.Context, name, region string) (*account.Stack, aws.Config, error) {
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithRetryMaxAttempts(maxAttempts))
	if err != nil {
		return nil, settings, fmt.Errorf("AWS configuration: %w", err)
	}
	if settings.Region == "" {
		return nil, settings, command.Usage("--region: required: the region of the stack (or set AWS_REGION)")
	}
	if _, err := settings.Credentials.Retrieve(ctx); err != nil {
		return nil, settings, fmt.Errorf("no AWS credentials; set AWS_PROFILE, or log in: %w", err)
	}
	stack, err := account.Open(ctx, settings, name)
	return stack, settings, err
}
