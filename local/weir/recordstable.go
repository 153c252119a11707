package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/loopback"
)

var errNoTable = command.Usage("--table: required: the records table of the deployment (or set RECORDS_TABLE)")

func openRecords(ctx context.Context, table string) (*dynamodb.Client, error) {
	if table == "" {
		return nil, errNoTable
	}
	endpoint := os.Getenv("DYNAMODB_ENDPOINT")
	client, err := boot.Config{DynamoDBEndpoint: endpoint, Local: loopback.URL(endpoint), AWS: clients.AWS}.DynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	if err := hasCredentials(ctx, client); err != nil {
		return nil, err
	}
	// more retries than in functions, because a command has time
	return dynamodb.New(client.Options(), func(c *dynamodb.Options) { c.Retryer = retry.NewStandard() }), nil
}

// hasCredentials returns an error if the AWS configuration has no region or no credentials.
func hasCredentials(ctx context.Context, client *dynamodb.Client) error {
	if client.Options().Region == "" {
		return errors.New("AWS_REGION: required: the region of the deployment (or set AWS_PROFILE to a profile that has one)")
	}
	if _, err := client.Options().Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials; set AWS_PROFILE, or log in: %w", err)
	}
	return nil
}

func explainRecords(table string, err error) error {
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return fmt.Errorf("--table: no table %q in this account and region; want the records table of the deployment, with AWS_PROFILE and "+
			"AWS_REGION of its stack", table)
	}
	return err
}
