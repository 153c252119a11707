// Command extension-redis is the program of the Lambda layer, which limits requests before a function runs.
// The limits are in Redis, and it sends no decision events.
package main

import (
	"os"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/runtimeproxy"
)

func main() {
	runtimeproxy.Start(boot.Layer(os.LookupEnv, boot.Clients{Redis: rediscache.OpenStore}))
}
