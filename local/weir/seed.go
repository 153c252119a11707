package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/serve"
)

func seedCommand() *cobra.Command {
	var endpoint string
	var renew, asJSON bool
	c := &cobra.Command{
		Use:   "seed",
		Short: "Show the sample API keys, and create them if they are missing",
		Long: "Show the sample API keys of this checkout, one for each tier, and create missing keys. With --endpoint, also create the table on DynamoDB Local.\n\n" +
			"No deployment accepts these keys. They are stored below .weir.",
		Example: "  weir seed\n  weir seed --endpoint http://127.0.0.1:8000 --json",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			made, err := seed(c.Context(), endpoint, renew)
			if err != nil {
				return err
			}
			if asJSON {
				return command.PrintJSON(c.OutOrStdout(), made)
			}
			made.print(c.OutOrStdout())
			return nil
		},
	}
	c.Flags().StringVar(&endpoint, "endpoint", os.Getenv("DYNAMODB_ENDPOINT"), "the URL of DynamoDB Local; default $DYNAMODB_ENDPOINT")
	c.Flags().BoolVar(&renew, "renew", false, "replace the API keys")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// seeded is the output of --json.
type seeded struct {
	Table    string            `json:"table,omitempty"` // empty without --endpoint
	Endpoint string            `json:"endpoint,omitempty"`
	Made     bool              `json:"tableMade"` // true if this run created the table
	APIKeys  map[string]string `json:"apiKeys"`   // key: tier
}

func seed(ctx context.Context, endpoint string, renew bool) (s seeded, err error) {
	c, err := checkout.FindKeys()
	if err != nil {
		return s, err
	}
	if endpoint != "" {
		s.Table, s.Endpoint = checkout.Table, endpoint
		if s.Made, err = checkout.MakeTable(ctx, endpoint, checkout.Table); err != nil {
			return s, err
		}
	}
	s.APIKeys, err = c.SampleKeys(renew)
	return s, err
}

func (s seeded) print(out io.Writer) {
	switch {
	case s.Table == "":
		fmt.Fprintln(out, "no table created, because make run needs none; to create a table, use --endpoint or DYNAMODB_ENDPOINT")
	case s.Made:
		fmt.Fprintf(out, "created table %s at %s\n", s.Table, s.Endpoint)
	default:
		fmt.Fprintf(out, "table %s exists\n", s.Table)
	}
	serve.PrintAPIKeys(out, s.APIKeys)
}
