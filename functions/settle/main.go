// Command settle settles the limits of requests behind a REST API after their answers.
// The limits are in DynamoDB.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() { boot.StartSettle(boot.Clients{DynamoDB: dynamostore.Open}) }
