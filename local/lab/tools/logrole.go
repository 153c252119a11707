package main

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/spf13/cobra"
)

// logRoleCommand returns the command with which make deploy creates the account's role for API Gateway's logs where none
// exists, and never replaces one.
func logRoleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "log-role",
		Short: "Print the setting that a deployment needs for API Gateway's logs",
		Long: "Print -c logRole=true if the account has no role with which API Gateway writes logs in the region, and nothing if it has one. " +
			"The setting makes the stack create the role. The command changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := config.LoadDefaultConfig(c.Context())
			if err != nil {
				return err
			}
			account, err := apigateway.NewFromConfig(settings).GetAccount(c.Context(), &apigateway.GetAccountInput{})
			if err != nil {
				return fmt.Errorf("the account's role for logs: %w; set logRole=true if the account has none, or logRole=false", err)
			}
			if aws.ToString(account.CloudwatchRoleArn) == "" {
				fmt.Fprintf(c.ErrOrStderr(), "the account has no role for API Gateway's logs in %s: the stack creates one\n", settings.Region)
				fmt.Fprintln(c.OutOrStdout(), "-c logRole=true")
			}
			return nil
		},
	}
}
