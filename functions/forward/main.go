// Command forward acts on log lines: it settles the limits of requests behind a REST API after their answers, and
// sends notices to an event bus. The limits are in DynamoDB.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks/eventbridge"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() { boot.StartForward(boot.Clients{DynamoDB: dynamostore.Open, Notices: eventbridge.Open}) }
