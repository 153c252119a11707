package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/serve"
)

// newConsole returns the console; nil without it. See console.go.
var newConsole func(serve.Page) http.Handler

func serveCommand() *cobra.Command {
	api := func(e *lambdahttp.Environment) http.Handler {
		return sample.WithLogin(e, cmp.Or(os.Getenv("SAMPLE_LOGIN"), "demo:demo"))
	}
	o := serve.Options{API: api, Console: newConsole, Clock: time.Now, Port: serve.DefaultPort}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the APIs with their limits on this machine",
		Long: "Run the REST API and the HTTP API of the stack on this machine, with the same functions as on Lambda. The functions run in " +
			"this process. " +
			"The page /_weir/ at the first port is a console: who is limited and why, and demonstrations. " +
			"This command runs no function in another language: functions/LAYER.md shows how to try the Lambda layer with the SAM CLI.\n\n" +
			"With --upstream, this command limits the requests to any HTTP server, and needs no checkout of Weir. Paths below /_weir/ belong to " +
			"the console. " +
			"Method, path, query and body pass unchanged, and also the Host, unless the upstream is https. X-Forwarded-For gets the address of " +
			"the client. Answers are streamed; WebSockets count as one request. " +
			"The answer gets the RateLimit fields that the upstream has not set. The field Weir-Cost, or the one that a rule names, reports a " +
			"cost and never reaches the client. " +
			"Only bearer tokens of weir token are verified. Callers with other tokens count by address; to count them by user, set JWKS, " +
			"JWT_ISSUER and JWT_AUDIENCE, and USER_CLAIM, TIER_CLAIM and CLAIMS. CORS_ORIGINS lists the origins whose pages may read " +
			"answers, with their limits. The sample keys and the key of the tokens are in .weir in this " +
			"folder.\n\n" +
			"The throttle of the stack's stages also applies here. Above 600 requests a second to one API, the gateway answers 429 " +
			"\"throttled\", unless --no-throttle is given.\n\n" +
			"--store dynamodb and --store redis start a local DynamoDB or Redis server, unless DYNAMODB_ENDPOINT or REDIS_URL names one. Only a " +
			"checkout can start DynamoDB.\n\n" +
			"Three variables of this command also apply to the functions. SAMPLE_LOGIN is the user:password of the sample API's login (default " +
			"demo:demo). MAX_DELAY is the maximum wait of a request in a leaky bucket. BASE_PATH lists the paths that custom domains add, such " +
			"as /v1,/orders/v2. A request with a Host without a port comes from such a domain.",
		Example: "  weir serve\n  weir serve --store redis\n  weir serve --rules my-rules.json --port 9000\n  weir serve --regions 3 --rules " +
			"local/examples/regions.json\n  weir serve --upstream http://127.0.0.1:3000 --rules rules.json",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkUpstream(c); err != nil {
				return err
			}
			o.Out, o.Log = c.OutOrStdout(), c.ErrOrStderr()
			o.Logger = slog.New(slog.NewTextHandler(o.Log, nil))
			return serve.New(o).Run(c.Context())
		},
	}
	c.Flags().StringVar(&o.Rules, "rules", "", "the rules document; default functions/rules.json")
	c.Flags().Var(&o.Upstream, "upstream", "the URL of your HTTP server, which gets the admitted requests instead of the "+
		"functions; paths below /_weir/ do not reach it")
	c.Flags().StringVar(&o.Store, "store", serve.Memory, "the store of the state: memory, dynamodb, redis, or a URL such as redis://HOST:6379")
	c.Flags().StringVar(&o.Address, "address", "", "the source of the client's address: host, cloudfront or hops:N, as in "+
		"infra/edge/README.md; the last two need ORIGIN_SECRET")
	c.Flags().BoolVar(&o.Unthrottled, "no-throttle", false, "leave out the throttle of the stack's stages, such as for a load test")
	c.Flags().StringVar(&o.Namespace, "namespace", "", "the namespace of this run's state in the store; default: the one in the template")
	c.Flags().Var(command.Port(&o.Port), "port", "the port of the first API; the second API has the next port")
	regions := command.Number{To: &o.Regions, Want: fmt.Sprintf("0 for one region, or 2 to %d", algo.MaxRegions),
		Valid: func(n int) bool { return n != 1 && n <= algo.MaxRegions }}
	c.Flags().Var(regions, "regions", "number of regions, 80 ms apart, that share limits with \"regions\": \"shared\"; the APIs of each "+
		"further region have ports that are 10 higher; 0: one region")
	return c
}

// checkUpstream returns an error if the flags do not fit --upstream.
func checkUpstream(c *cobra.Command) error {
	if !c.Flags().Changed("upstream") {
		return nil
	}
	if c.Flags().Changed("no-throttle") {
		return command.Usage("--no-throttle: has no effect with --upstream, which runs no functions")
	}
	if !c.Flags().Changed("rules") {
		return command.Usage("--rules: required with --upstream: the rules document of your server")
	}
	return nil
}
