// Package linked has all clients of package boot, for programs whose size and start time do not matter,
// such as the commands of this repository. A function links the clients of its deployment alone.
package linked

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/sinks"
)

// Clients returns all clients. The region and the credentials of AWS are those that the AWS SDK finds,
// such as a profile.
func Clients() boot.Clients {
	return boot.Clients{Redis: rediscache.OpenStore, Events: sinks.Open, AWS: loadAWS}
}

func loadAWS(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }

// Load is boot.Load with all clients.
func Load(lookup func(string) (string, bool)) (boot.Config, error) {
	c, err := boot.Load(lookup)
	c.Clients = Clients()
	return c, err
}
