package verify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

// These variables hold credentials. Other users of the machine could read them in arguments.
const (
	tokenVariable  = "WEIR_TOKEN"
	apiKeyVariable = "WEIR_API_KEY"
)

const maxClients = 1000

// production matches the names of stages that look like production.
var production = regexp.MustCompile(`(?i)(^|[^a-z])(prod|production|prd|live)([^a-z]|$)`)

type verifier struct {
	Deployment
	rules, routes string
	values        map[string]string
	yes, asJSON   bool
	out, log      io.Writer
}

// Command returns the command weir verify.
func Command() *cobra.Command {
	v := &verifier{Deployment: Deployment{Clock: time.Now}}
	c := &cobra.Command{
		Use:   "verify",
		Short: "Test a deployment, fact after fact",
		Long: "Test a deployment by a URL: whether its limits are exact, whether each route has limits, whether refusals have the right " +
			"status, fields and body, and more. " +
			"Each row of the output is one fact. A row that fails shows the answer of the deployment. A row that does not apply is skipped with " +
			"the reason. infra/VERIFY.md describes the command.\n\n" +
			"The command needs no AWS credentials. It sends GET and HEAD requests and preflights, about 250 with the sample rules, and prints " +
			"the maximum number first. It exhausts limits of its caller, and no limit that all callers share. " +
			"With --routes, it tests each route of a list or of an OpenAPI document in JSON; other methods only with --write.\n\n" +
			"The caller is anonymous unless $" + tokenVariable + " or $" + apiKeyVariable + " has a credential, which has rows of its own. " +
			"The exit status is 0 if no row failed and at least one passed, and 1 otherwise.",
		Example: "  weir verify --url http://127.0.0.1:8080\n" +
			"  weir verify --url https://api.example.com/v1 --routes openapi.json --value id=42",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			v.out, v.log = c.OutOrStdout(), c.ErrOrStderr()
			return v.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&v.URL, "url", "", "the URL of an API with its stage, of a custom domain with the path of its mapping, of a distribution, "+
		"or of a function")
	f.StringVar(&v.routes, "routes", "", "a file with the routes to test: lines such as GET /items/{id}, or an OpenAPI document in JSON")
	f.StringToStringVar(&v.values, "value", nil, "with --routes, the value of a parameter, such as id=42; default: the examples of the "+
		"document")
	f.BoolVar(&v.Write, "write", false, "with --routes, also send requests that can change data, such as POST")
	f.StringVar(&v.rules, "rules", "", "the rules of the deployment; default: functions/rules.json")
	f.StringVar(&v.Path, "path", "", "the path of the GET requests; default: one with a small limit")
	f.StringVar(&v.APIKeyHeader, "api-key-header", "x-api-key", "the API_KEY_HEADER of the functions, or none")
	f.StringVar(&v.Tier, "tier", "", "the tier of the caller; default: the default tier of the rules")
	f.StringVar(&v.Origin, "origin", "", "an origin in corsOrigins, for preflights")
	f.DurationVar(&v.MaxWait, "wait", 15*time.Second, "the longest wait for a limit")
	f.IntVar(&v.Clients, "clients", DefaultClients, fmt.Sprintf("maximum number of concurrent requests, at most %d", maxClients))
	f.BoolVar(&v.yes, "yes", false, "test a deployment whose name looks like production")
	f.BoolVar(&v.asJSON, "json", false, "print the rows as one JSON list")
	return c
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.check(); err != nil {
		return err
	}
	if err := v.read(); err != nil {
		return err
	}
	v.Token, v.APIKey = os.Getenv(tokenVariable), os.Getenv(apiKeyVariable)
	v.Credential = http.Header{}
	if v.Token != "" {
		v.Credential.Set(authorization, "Bearer "+v.Token)
	}
	if v.APIKey != "" && v.APIKeyHeader != contract.NoAPIKeys {
		v.Credential.Set(v.APIKeyHeader, v.APIKey)
	}
	v.Waiting = func(d time.Duration, reason string) { fmt.Fprintf(v.log, "waiting %s: %s\n", d, reason) }
	plan := v.Plan()
	fmt.Fprintf(v.log, "sending at most %d requests\n", plan.Requests)
	out := v.out
	if v.asJSON {
		out = v.log
	}
	number := map[Outcome]int{}
	style := command.StyleOf(out)
	styles := map[Outcome]func(string) string{Pass: style.Good, Fail: style.Bad, Skip: style.Weak}
	results, interrupted := Run(ctx, plan, func(r Result) {
		number[r.Outcome]++
		fmt.Fprintf(out, "%s  %-13s  %s\n", styles[r.Outcome](string(r.Outcome)), r.Row, r.Detail)
	})
	for _, r := range results {
		if r.Outcome == Fail {
			fmt.Fprintf(out, "\n%s: %s\n%s\n", style.Bold(r.Row), r.Claim, r.Answer)
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", number[Pass], number[Fail], number[Skip])
	if v.asJSON {
		if err := command.PrintJSON(v.out, results); err != nil {
			return err
		}
	}
	switch {
	case interrupted != nil:
		return command.ExitError{Code: command.Interrupted}
	case number[Fail] > 0 || number[Pass] == 0:
		return command.ExitError{Code: 1}
	}
	return nil
}

func (v *verifier) check() error {
	u, err := url.Parse(v.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "":
		return command.Usage("--url: got %q, want a URL such as https://abc123.execute-api.eu-central-1.amazonaws.com/dev", v.URL)
	case production.MatchString(v.URL) && !v.yes:
		return command.Usage("--url: %s looks like production; the command exhausts limits of its caller there; to test it, add --yes", v.URL)
	case v.routes == "" && (v.Write || len(v.values) > 0):
		return command.Usage("--write and --value: require --routes")
	case v.Path != "" && !strings.HasPrefix(v.Path, "/"):
		return command.Usage("--path: got %q, want a path that begins with /", v.Path)
	case v.Clients < 1 || v.Clients > maxClients:
		return command.Usage("--clients: got %d, want 1 to %d", v.Clients, maxClients)
	case v.MaxWait < 0 || v.MaxWait > time.Hour:
		return command.Usage("--wait: got %s, want 0s to 1h", v.MaxWait)
	}
	return nil
}

// read reads the rules and the routes.
func (v *verifier) read() error {
	file := v.rules
	if file == "" {
		c, err := checkout.Find()
		if err != nil {
			return command.Usage("--rules: required outside a checkout of Weir: the rules document of the deployment")
		}
		file = c.Path("functions", "rules.json")
	}
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	v.Rules, err = checkout.ParseRules(document)
	if err != nil {
		return fmt.Errorf("%s has mistakes:\n%w", file, err)
	}
	if v.Tier != "" && !slices.Contains(v.Rules.Tiers(), v.Tier) {
		return command.Usage("--tier: got %q, want one of %q", v.Tier, v.Rules.Tiers())
	}
	if v.routes == "" {
		return nil
	}
	document, err = os.ReadFile(v.routes)
	if err != nil {
		return fmt.Errorf("--routes: %w", err)
	}
	v.Routes, err = ParseRoutes(document, v.values)
	if err != nil {
		return fmt.Errorf("--routes: %s: %w", v.routes, err)
	}
	return nil
}
