// Package clients has the clients of package boot that commands of this repository use.
package clients

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/weir-limits/weir/functions/boot"
	_ "github.com/weir-limits/weir/functions/stores"
)

// Default returns the clients of this package. The AWS SDK finds the region and the credentials, for
// example in a profile.
func Default() boot.Clients {
	return boot.Clients{AWS: loadAWS}
}

func loadAWS(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }

// Load is boot.Load with the clients of this package.
func Load(lookup func(string) (string, bool)) (boot.Config, error) {
	c, err := boot.Load(lookup)
	c.Clients = Default()
	return c, err
}
