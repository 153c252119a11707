// Package clients has the clients of package boot that commands of this repository use.
package clients

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/weir-limits/weir/functions/boot"
	_ "github.com/weir-limits/weir/functions/stores" // registers the stores of the commands
)

// AWS returns the region and the credentials that the AWS SDK finds, for example in a profile.
func AWS(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }

// Load is boot.Load with the clients of this package.
func Load(lookup func(string) (string, bool)) (boot.Config, error) {
	c, err := boot.Load(lookup)
	c.AWS = AWS
	return c, err
}
