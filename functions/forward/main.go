// Command forward acts on log lines. It settles the limits of requests behind a REST API after their answers, sends
// notices to an event bus, and lists refused callers for a distribution. The limits are in DynamoDB.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks/eventbridge"
	"github.com/weir-limits/weir/functions/sinks/keyvalues"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() {
	boot.StartForward(boot.Clients{DynamoDB: dynamostore.Open, List: keyvalues.Open, Notices: eventbridge.Open})
}
