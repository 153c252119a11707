// Command forward-redis is the command forward with the limits in Redis. In the network of the cache, it reaches no
// event bus, so it only settles.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/rediscache"
)

func main() { boot.StartForward(boot.Clients{Redis: rediscache.OpenStore}) }
