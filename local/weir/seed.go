package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func seedCommand() *cobra.Command {
	var endpoint string
	var renew, asJSON bool
	c := &cobra.Command{
		Use:   "seed",
		Short: "Make what a local run needs: the table and sample API keys",
		Long: "Make what a local run needs: the table, if an endpoint of DynamoDB Local is given, and one API key a tier. " +
			"The keys are printed once; only keyed hashes of them are kept, below .weir.",
		Example: "  weir seed\n  weir seed --endpoint http://127.0.0.1:8000 --json",
		Args:    exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			checkout, err := findCheckout()
			if err != nil {
				return err
			}
			s, err := seed(c.Context(), checkout, endpoint, renew)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), s)
			}
			s.print(c.OutOrStdout(), renew)
			return nil
		},
	}
	c.Flags().StringVar(&endpoint, "endpoint", os.Getenv("DYNAMODB_ENDPOINT"), "where DynamoDB Local is; default $DYNAMODB_ENDPOINT")
	c.Flags().BoolVar(&renew, "renew", false, "make new API keys in place of those that there are")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// seeded is what a seed has made, as --json prints it.
type seeded struct {
	Table    string            `json:"table,omitempty"` // "" without an endpoint
	Endpoint string            `json:"endpoint,omitempty"`
	Made     bool              `json:"tableMade"` // it was not there before
	APIKeys  map[string]string `json:"apiKeys"`   // by tier; none if they were made before
}

func seed(ctx context.Context, c checkout, endpoint string, renew bool) (s seeded, err error) {
	if endpoint != "" {
		s.Table, s.Endpoint = localTable, endpoint
		if s.Made, err = makeTable(ctx, endpoint, localTable); err != nil {
			return s, err
		}
	}
	if s.APIKeys, err = c.seedAPIKeys(renew); s.APIKeys == nil {
		s.APIKeys = map[string]string{}
	}
	return s, err
}

func (s seeded) print(out io.Writer, renew bool) {
	switch {
	case s.Table == "":
		fmt.Fprintln(out, "no table made, as make run needs none (--endpoint or DYNAMODB_ENDPOINT makes one)")
	case s.Made:
		fmt.Fprintf(out, "made table %s at %s\n", s.Table, s.Endpoint)
	default:
		fmt.Fprintf(out, "table %s is there already\n", s.Table)
	}
	printAPIKeys(out, s.APIKeys)
	if len(s.APIKeys) == 0 {
		fmt.Fprintln(out, "API keys are there already; --renew makes new ones")
	}
	if renew {
		fmt.Fprintln(out, "a weir serve (make run) that is running knows the old ones until it is started again")
	}
}

func printAPIKeys(out io.Writer, keys map[string]string) {
	for _, tier := range sampleTiers {
		if key := keys[tier]; key != "" {
			fmt.Fprintf(out, "API key of tier %-10s x-api-key: %s\n", tier, key)
		}
	}
}

// makeTable makes the table of the limits on DynamoDB Local. made is false if it was
// there.
func makeTable(ctx context.Context, endpoint, table string) (made bool, err error) {
	config := boot.Config{Store: "dynamodb", DynamoDBEndpoint: endpoint, Local: true}
	client, err := config.DynamoDBClient(ctx)
	if err != nil {
		return false, err
	}
	if !isLocal(endpoint) {
		return false, fmt.Errorf("%s is not on this machine: cdk deploy makes the table at AWS", endpoint)
	}
	_, err = client.CreateTable(ctx, dynamostore.TableInput(table))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
		return false, nil
	}
	if err != nil {
		return false, config.Explain(err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return false, fmt.Errorf("table %s: %w", table, err)
	}
	return true, nil
}

// isLocal reports whether a URL is of this machine.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
