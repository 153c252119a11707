package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// These attributes are part of the definition of a table.
const (
	KeyAttribute = "pk"  // partition key, a string
	TTLAttribute = "ttl" // time to live, seconds since the Unix epoch
)

// Actions returns the IAM actions on the table for Take and Settle: all that a Limiter needs to decide
// requests.
func Actions() []string { return []string{"dynamodb:GetItem", "dynamodb:UpdateItem"} }

// AdministrationActions returns the IAM actions for Inspect and Reset, which are for operators.
func AdministrationActions() []string {
	return []string{"dynamodb:DeleteItem", "dynamodb:GetItem"}
}

// TableInput returns the definition of a table for a Store: on demand, with a string key. Enable time
// to live separately, on TTLAttribute.
func TableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(KeyAttribute), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(KeyAttribute), KeyType: types.KeyTypeHash}},
	}
}
