package checkout

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/local/loopback"
)

// Table is the name of the table for limits on DynamoDB Local.
const Table = "weir"

// MakeTable creates the table for limits on DynamoDB Local. made is false if the table exists.
func MakeTable(ctx context.Context, endpoint, table string) (made bool, err error) {
	config := boot.Config{Store: "dynamodb://" + table, DynamoDBEndpoint: endpoint, Local: true}
	client, err := config.DynamoDBClient(ctx)
	if err != nil {
		return false, err
	}
	if !loopback.URL(endpoint) {
		return false, fmt.Errorf("DYNAMODB_ENDPOINT: %s is not on this machine; on AWS, make deploy creates the table", endpoint)
	}
	_, err = client.CreateTable(ctx, dynamostore.TableInput(table))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
		return false, nil
	}
	if err != nil {
		return false, config.Explain(err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return false, fmt.Errorf("table %s: %w", table, err)
	}
	return true, nil
}
