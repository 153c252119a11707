// Package dynamotable opens the store of STORE=dynamodb for package boot. Functions whose counters are in
// Redis do not link it.
package dynamotable

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// OpenStore returns the store in a table. Use it as the field DynamoDB of boot.Clients.
func OpenStore(client *dynamodb.Client, table, namespace string) (limiter.Store, error) {
	store, err := dynamostore.New(client, dynamostore.Options{Table: table, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return store, nil
}
