// Command settle-redis settles the limits of requests behind a REST API after their answers.
// The limits are in Redis.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/rediscache"
)

func main() { boot.StartSettle(boot.Clients{Redis: rediscache.OpenStore}) }
