package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/lab/e2e"
)

func e2eCommand() *cobra.Command {
	o := &e2eOptions{}
	c := &cobra.Command{
		Use:   "e2e [-- -c KEY=VALUE...]",
		Short: "Deploy a throw-away stack, verify it and delete it",
		Long: "Deploy a stack with a unique name, verify it with weir verify, print its estimated cost, and delete it, for each store. The command needs AWS credentials, a bootstrapped CDK and the built functions; make e2e has all of them. " +
			"Settings after -- are settings of the deployment.\n\n" +
			"The command deletes the stack and what CloudFormation retains, also after a failure and after an interrupt. It prints what it could not delete, with the commands that delete it. A second interrupt ends the command at once.",
		Example: "  make e2e\n  weir-tools e2e --store both -- -c arch=arm64",
		Args: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return command.Usage("arguments: got %q, want settings only after --", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, args) },
	}
	c.Flags().StringVar(&o.store, "store", "dynamodb", "dynamodb, elasticache or both")
	c.Flags().StringVar(&o.region, "region", "", "the region; default $AWS_REGION")
	c.Flags().StringVar(&o.rules, "rules", "", "the rules document that the settings after -- deploy (-c rules=PATH); default local/lab/e2e/rules.json, with a limit that is settled")
	c.Flags().StringVar(&o.variant, "variant", "stack", "what to deploy: stack, or release (the template in dist/release with an API and a function with the layer)")
	c.Flags().BoolVar(&o.issuer, "issuer", true, "deploy an issuer of tokens too, and verify with its token")
	c.Flags().IntVar(&o.clients, "clients", 5, "maximum number of concurrent requests; a new account has a concurrency of 10, and a request to the REST API takes two of them")
	c.Flags().StringVar(&o.report, "report", "e2e", "first part of the names of the reports, such as e2e-dynamodb.md")
	c.Flags().StringVar(&o.cdk, "cdk", "npx --no-install cdk", "the CDK, with its arguments")
	c.Flags().StringVar(&o.weir, "weir", "", "the program weir; default .bin/weir")
	c.Flags().BoolVar(&o.check, "check", false, "only check the settings, the region and the credentials, and change nothing")
	command.Complete(c, "store", "dynamodb", "elasticache", "both")
	command.Complete(c, "variant", "stack", "release")
	return c
}

// maxClients is the maximum of weir verify.
const maxClients = 1000

type e2eOptions struct {
	store, region, rules, report, cdk, weir, variant string
	check, issuer                                    bool
	clients                                          int
}

func (o *e2eOptions) run(c *cobra.Command, settings []string) error {
	stores := e2e.Stores()
	if o.store != "both" {
		if !slices.Contains(stores, o.store) {
			return command.Usage("--store: got %q, want dynamodb, elasticache or both", o.store)
		}
		stores = []string{o.store}
	}
	switch {
	case o.variant != "stack" && o.variant != "release":
		return command.Usage("--variant: got %q, want stack or release", o.variant)
	case o.clients < 1 || o.clients > maxClients:
		return command.Usage("--clients: got %d, want 1 to %d", o.clients, maxClients)
	}
	for _, setting := range settings {
		if name, _, _ := strings.Cut(setting, "="); name == "stage" || name == "store" {
			return command.Usage("setting %q: want none; the command selects the stage, and --store the store", setting)
		}
	}
	ctx := c.Context()
	aws, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.region), config.WithRetryMaxAttempts(10))
	if err != nil {
		return fmt.Errorf("AWS configuration: %w", err)
	}
	if aws.Region == "" {
		return command.Usage("--region: required (or set AWS_REGION)")
	}
	if _, err := aws.Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials; set AWS_PROFILE, or log in: %w", err)
	}
	if o.check {
		return (&e2e.Runner{Config: aws}).Check(ctx)
	}
	place, err := checkout.Find()
	if err != nil {
		return err
	}
	weir := o.weir
	if weir == "" {
		weir = place.Path(".bin", "weir")
	}
	if o.rules == "" {
		o.rules = place.Path("local", "lab", "e2e", "rules.json")
		settings = append(settings, "-c", "rules="+o.rules)
	}
	verify := []string{weir, "verify", "--rules", o.rules, "--clients", strconv.Itoa(o.clients)}
	deploy := slices.Concat(strings.Fields(o.cdk), []string{"deploy", "--require-approval", "never"}, settings)
	var failed error
	for _, store := range stores {
		p := &e2e.Runner{
			Config: aws, Deploy: deploy, Verify: verify, Rules: o.rules, Issuer: o.issuer && !issued(settings), Dir: place.Path("infra"),
			Report: o.report + "-" + store + ".md", Out: c.OutOrStdout(), Log: c.ErrOrStderr(),
		}
		if o.variant == "release" {
			p.Release = place.Path("dist", "release")
		}
		failed = errors.Join(failed, p.Run(ctx, store))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func issued(settings []string) bool {
	return slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "issuer=") })
}
