package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/serve"
)

func serveCommand() *cobra.Command {
	o := serve.Options{Clock: time.Now, Port: 8080}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the APIs with their limits on this machine",
		Long: "Run the REST API and the HTTP API of the template on this machine, with the functions that Lambda runs: in this process " +
			"or, with --environments, in separate processes that are frozen between requests, as in Lambda. " +
			"A page at /_weir/ of the first port sends requests and shows the answers.\n\n" +
			"The throttle of the template's stages applies here, too. Above it, at 600 requests a second for each API, the gateway answers 429 \"throttled\".\n\n" +
			"--store dynamodb and --store redis start a local DynamoDB or Redis server, unless DYNAMODB_ENDPOINT or REDIS_URL names one.\n\n" +
			"It passes on two variables of the functions: SAMPLE_LOGIN, the user:password of the sample API's login (demo:demo), and MAX_DELAY, how long a request may wait in a leaky bucket.",
		Example: "  weir serve\n  weir serve --store redis --environments 10\n  weir serve --rules my-rules.json --port 9000",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Out, o.Log = c.OutOrStdout(), c.ErrOrStderr()
			o.Logger = slog.New(slog.NewTextHandler(o.Log, nil))
			return serve.New(o).Run(c.Context())
		},
	}
	c.Flags().StringVar(&o.Rules, "rules", "", "the rules document; default functions/rules.json")
	c.Flags().StringVar(&o.Store, "store", serve.Memory, "where the state lives: memory, dynamodb or redis")
	command.Complete(c, "store", serve.Memory, "dynamodb", "redis")
	c.Flags().StringVar(&o.Template, "template", "", "the CloudFormation template; default that of the store in infra/golden")
	c.Flags().StringVar(&o.Namespace, "namespace", "", "separates this run's state from others in one store; default as in the template")
	c.Flags().Var(&o.Port, "port", "the port of the first API; the next has the next")
	c.Flags().Var(&o.Environments, "environments", "run each function in at most so many processes, from its bootstrap in dist; 0: in this process")
	c.Flags().DurationVar(&o.Idle, "idle", 0, "how long an environment waits for a request before it is ended; 0: for ever")
	return c
}
