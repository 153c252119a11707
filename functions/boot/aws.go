package boot

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// localRegion is the region of endpoints outside AWS.
const localRegion = "us-east-1"

// ownRegion returns the region of a process that is in one of several regions. Otherwise it returns "": the configuration of
// AWS has the region.
func (c Config) ownRegion() string {
	if len(c.Regions) == 0 {
		return ""
	}
	return c.Region
}

// AWSConfig returns the configuration of an AWS client. Without DynamoDBEndpoint it is for AWS. With an endpoint in a local run,
// AWSConfig reads no AWS profile: an invalid profile cannot fail the run, and the endpoint receives no real credentials.
func (c Config) AWSConfig(ctx context.Context) (aws.Config, error) {
	endpoint := c.DynamoDBEndpoint
	if endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return aws.Config{}, fmt.Errorf("DYNAMODB_ENDPOINT: got %q, want a URL such as http://127.0.0.1:8000", endpoint)
		}
		if c.Local {
			return aws.Config{
				Region: cmp.Or(c.ownRegion(), localRegion), BaseEndpoint: aws.String(endpoint),
				Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
			}, nil
		}
	}
	load := c.AWS
	if load == nil {
		load = lambdaAWS
	}
	config, err := load(ctx)
	if err != nil {
		return config, fmt.Errorf("AWS configuration: %w", err)
	}
	if endpoint != "" {
		config.BaseEndpoint, config.Region = aws.String(endpoint), cmp.Or(config.Region, localRegion)
	}
	return config, nil
}

// lambdaAWS returns the region and the credentials in the variables of a function. Lambda sets them
// once for the life of an environment, also on Lambda Managed Instances.
func lambdaAWS(context.Context) (aws.Config, error) {
	return aws.Config{
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"),
			os.Getenv("AWS_SESSION_TOKEN")),
		ConfigSources: []any{lambdaEndpoints{}},
	}, nil
}

// lambdaEndpoints reads the variable that selects endpoints with FIPS 140 cryptography.
type lambdaEndpoints struct{}

// GetUseFIPSEndpoint implements an optional interface of AWS clients.
func (lambdaEndpoints) GetUseFIPSEndpoint(context.Context) (state aws.FIPSEndpointState, found bool, err error) {
	switch value := os.Getenv("AWS_USE_FIPS_ENDPOINT"); value {
	case "":
		return aws.FIPSEndpointStateUnset, false, nil
	case "true":
		return aws.FIPSEndpointStateEnabled, true, nil
	case "false":
		return aws.FIPSEndpointStateDisabled, true, nil
	default:
		return aws.FIPSEndpointStateUnset, false, fmt.Errorf("AWS_USE_FIPS_ENDPOINT: got %q, want true or false", value)
	}
}
