// Command extension-events is the program of the Lambda layer, which limits requests before a function runs.
// The limits are in DynamoDB or Redis, and it sends decision events.
package main

import (
	"os"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/runtimeproxy"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() {
	runtimeproxy.Start(boot.Layer(os.LookupEnv, boot.Clients{DynamoDB: dynamostore.Open, Redis: rediscache.OpenStore, Events: sinks.Open}))
}
