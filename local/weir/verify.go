package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/verify"
)

// These variables hold credentials of verify. Other users of the machine could read them in arguments.
const (
	tokenVariable        = "WEIR_TOKEN"
	apiKeyVariable       = "WEIR_API_KEY"
	suspendedKeyVariable = "WEIR_SUSPENDED_API_KEY"
)

var headerField = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$")

func verifyCommand() *cobra.Command {
	v := &verifier{}
	c := &cobra.Command{
		Use:   "verify",
		Short: "Test a deployment, fact after fact",
		Long: "Test a deployment: whether its limits are exact, whether refusals have the right status, fields and body, and more. " +
			"Each row of the output is one fact. A row that fails shows the answer of the deployment. A row that does not apply is skipped with the reason. infra/LIMITATIONS.md lists the rows, and infra/VERIFY.md describes the command.\n\n" +
			"The command sends GET requests and preflights: about 250 with the sample rules. It prints the maximum number first. It exhausts limits of its caller, and no limit that all callers share. " +
			"The caller is anonymous unless $" + tokenVariable + " or $" + apiKeyVariable + " has a credential, which has rows of its own. $" + suspendedKeyVariable + " has an API key that is suspended.\n\n" +
			"With URLs only, the command needs no AWS credentials. With --stack, it also reads the stack, its resources, its metrics and its logs with the AWS configuration (AWS_PROFILE, AWS_REGION). It changes nothing without --write. " +
			"--json and --report remove account ids, names of resources, hosts, addresses, users and credentials. " +
			"The exit status is 0 if no row failed and at least one passed, and 1 otherwise.",
		Example: "  weir verify --url http://127.0.0.1:8080 --http-url http://127.0.0.1:8081\n" +
			"  weir verify --url https://abc123.execute-api.eu-central-1.amazonaws.com/dev --json\n" +
			"  weir verify --stack Weir-dev --write --report report.md",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			v.out, v.log = c.OutOrStdout(), c.ErrOrStderr()
			return v.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&v.URL, "url", "", "the URL of the REST API, with its stage (output RestUrl)")
	f.StringVar(&v.HTTPURL, "http-url", "", "the URL of the HTTP API (output HttpUrl)")
	f.StringVar(&v.FunctionURL, "function-url", "", "the URL of a function that calls the limiter")
	f.StringVar(&v.LayerURL, "layer-url", "", "the URL of a function with the layer")
	f.StringVar(&v.DomainURL, "domain-url", "", "the URL of a custom domain of one of the APIs, with the path of its mapping")
	f.StringVar(&v.RegionURL, "region-url", "", "the URL of the first API in another of the regions that share limits; with --stack, default: the stack of the same name there")
	f.StringVar(&v.RESTDistributionURL, "distribution-url", "", "the URL of the distribution in front of the REST API (output RestDistributionUrl)")
	f.StringVar(&v.HTTPDistributionURL, "http-distribution-url", "", "the URL of the distribution in front of the HTTP API (output HttpDistributionUrl)")
	f.StringVar(&v.template, "template", "", "a synthesized template, for the rows about resources")
	f.StringVar(&v.stackName, "stack", "", "a deployed stack, for the rows about its account; its outputs have the URLs")
	f.StringVar(&v.region, "region", "", "with --stack, the region of the stack; default $AWS_REGION")
	f.BoolVar(&v.write, "write", false, "with --stack, permit the changes that the rows need, and undo them: the state of the alarm degraded, and the reserved concurrency of the authorizer, whose API fails for about half a minute")
	f.StringVar(&v.report, "report", "", "write a report in Markdown without private values to this file")
	f.StringVar(&v.rules, "rules", "", "the rules of the deployment; default: the rules in the records table of the stack, or functions/rules.json")
	f.StringVar(&v.Path, "path", "", "the path of the GET requests; default: one with a small limit")
	f.StringVar(&v.APIKeyHeader, "api-key-header", "", "the API_KEY_HEADER of the functions, or none; default: the value in the stack, or x-api-key")
	f.StringVar(&v.Tier, "tier", "", "the tier of the caller; default: the default tier of the rules")
	f.StringVar(&v.Origin, "origin", "", "an origin in corsOrigins, for preflights")
	f.DurationVar(&v.MaxWait, "wait", 15*time.Second, "the longest wait for a limit")
	f.IntVar(&v.Clients, "clients", verify.DefaultClients, fmt.Sprintf("maximum number of concurrent requests, at most %d", 1000))
	f.BoolVar(&v.yes, "yes", false, "test a deployment whose name looks like production")
	f.BoolVar(&v.all, "all", false, "print each skipped row, not only the reasons")
	f.BoolVar(&v.asJSON, "json", false, "print one JSON object, without private values")
	return c
}

// verified is the result of a run. --json prints it.
type verified struct {
	Passed   int             `json:"passed"`
	Failed   int             `json:"failed"`
	Skipped  int             `json:"skipped"`
	Requests int             `json:"requests"` // number of requests sent
	Rows     []verify.Result `json:"rows"`
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.check(); err != nil {
		return err
	}
	if v.stackName != "" {
		if err := v.openStack(ctx); err != nil {
			return err
		}
	}
	if err := v.read(ctx); err != nil {
		return err
	}
	v.Credential, v.Token, v.APIKey = credential(v.APIKeyHeader), os.Getenv(tokenVariable), os.Getenv(apiKeyVariable)
	v.SuspendedKey = os.Getenv(suspendedKeyVariable)
	v.Waiting = func(d time.Duration, reason string) { fmt.Fprintf(v.log, "waiting %s: %s\n", d, reason) }
	plan := v.Plan(verify.Rows())
	fmt.Fprintf(v.log, "sending at most %d requests\n", plan.Requests)
	results, interrupted := verify.Run(ctx, plan, v.progress())
	all := sum(results)
	if !v.all && !v.asJSON {
		printSkips(v.out, results)
	}
	if err := errors.Join(v.print(all), v.writeReport(results), v.left()); err != nil {
		return err
	}
	switch {
	case interrupted != nil:
		return command.ExitError{Code: command.Interrupted}
	case all.Failed > 0 || all.Passed == 0:
		return command.ExitError{Code: 1}
	}
	return nil
}

func (v *verifier) check() error {
	given := false
	for _, f := range []struct{ flag, url string }{
		{"url", v.URL}, {"http-url", v.HTTPURL}, {"function-url", v.FunctionURL}, {"layer-url", v.LayerURL}, {"domain-url", v.DomainURL}, {"region-url", v.RegionURL},
		{"distribution-url", v.RESTDistributionURL}, {"http-distribution-url", v.HTTPDistributionURL},
	} {
		if f.url == "" {
			continue
		}
		given = given || !slices.Contains([]string{"domain-url", "region-url", "distribution-url", "http-distribution-url"}, f.flag) // these are compared with another URL
		u, err := url.Parse(f.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
			return command.Usage("--%s: got %q, want a URL such as https://abc123.execute-api.eu-central-1.amazonaws.com/dev", f.flag, f.url)
		}
		if production.MatchString(f.url) && !v.yes {
			return command.Usage("--%s: %s looks like production; the command exhausts limits of its caller there; to test it, add --yes", f.flag, f.url)
		}
	}
	switch {
	case !given && v.template == "" && v.stackName == "":
		return command.Usage("--url: required, or --http-url, --function-url, --layer-url, --template or --stack")
	case v.stackName == "" && v.write:
		return command.Usage("--write: requires --stack")
	case v.stackName == "" && v.region != "":
		return command.Usage("--region: requires --stack")
	case v.stackName != "" && v.template != "":
		return command.Usage("--stack and --template: got both, want one of them; the stack has its template")
	case v.Path != "" && !strings.HasPrefix(v.Path, "/"):
		return command.Usage("--path: got %q, want a path that begins with /", v.Path)
	case v.APIKeyHeader != "" && !headerField.MatchString(v.APIKeyHeader):
		return command.Usage("--api-key-header: got %q, want the name of a header field, or none", v.APIKeyHeader)
	case v.report != "" && !isFolder(filepath.Dir(v.report)):
		return command.Usage("--report: no folder %s; create it", filepath.Dir(v.report))
	case v.Clients < 1 || v.Clients > 1000:
		return command.Usage("--clients: got %d, want 1 to %d", v.Clients, 1000)
	case v.MaxWait < 0 || v.MaxWait > time.Hour:
		return command.Usage("--wait: got %s, want 0s to 1h", v.MaxWait)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (v *verifier) read(ctx context.Context) error {
	document, file, err := v.document(ctx)
	if err != nil {
		return err
	}
	if v.Rules, err = checkout.ParseRules(document); err != nil {
		return fmt.Errorf("%s has mistakes:\n%w", file, err)
	}
	if v.Tier != "" && !slices.Contains(v.Rules.Tiers(), v.Tier) {
		return command.Usage("--tier: got %q, want one of %q", v.Tier, v.Rules.Tiers())
	}
	if v.template == "" {
		return nil
	}
	if document, err = os.ReadFile(v.template); err != nil {
		return fmt.Errorf("--template: %w", err)
	}
	if v.Template, err = verify.ParseTemplate(document); err != nil {
		return fmt.Errorf("--template: %s: %w", v.template, err)
	}
	return nil
}

// document returns the rules and their place: the file of --rules, the records table of the stack, or the file of
// the checkout.
func (v *verifier) document(ctx context.Context) (document []byte, file string, err error) {
	if file = v.rules; file == "" && v.stack != nil {
		if document, err = v.stack.Rules(ctx); document != nil || err != nil {
			return document, "the records table", err
		}
	}
	if file == "" {
		c, err := checkout.Find()
		if err != nil {
			return nil, "", command.Usage("--rules: required outside a checkout of Weir: the rules document of the deployment")
		}
		file = c.Path("functions", "rules.json")
	}
	if document, err = readDocument(ctx, os.Stdin, file); err != nil {
		return nil, file, fmt.Errorf("--rules: %w", err)
	}
	return document, file, nil
}

// credential returns the header fields of the caller in the environment. apiKeyHeader is the API_KEY_HEADER of the deployment.
func credential(apiKeyHeader string) http.Header {
	h := http.Header{}
	if token := os.Getenv(tokenVariable); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	if key := os.Getenv(apiKeyVariable); key != "" && apiKeyHeader != contract.NoAPIKeys {
		h.Set(cmp.Or(apiKeyHeader, "x-api-key"), key)
	}
	return h
}

func sum(results []verify.Result) verified {
	all := verified{Rows: results}
	for _, r := range results {
		all.Requests += r.Requests
		switch r.Outcome {
		case verify.Pass:
			all.Passed++
		case verify.Fail:
			all.Failed++
		case verify.Skip:
			all.Skipped++
		}
	}
	return all
}

// printSkips prints each reason for which rows were skipped, with the name of a single row, or the number of rows.
func printSkips(out io.Writer, results []verify.Result) {
	rows := map[string]int{}
	for _, r := range results {
		rows[r.Reason]++
	}
	for _, r := range results {
		n := rows[r.Reason]
		if delete(rows, r.Reason); r.Outcome != verify.Skip || n == 0 {
			continue
		}
		what := r.Row
		if n > 1 {
			what = plural(n, "row")
		}
		fmt.Fprintf(out, "%s  %s: %s\n", command.StyleOf(out).Weak("skip"), what, r.Reason)
	}
}

// progress prints each row when its test has ended. Without --all, it prints no skipped row. On a terminal, it first prints the name of the row.
func (v *verifier) progress() verify.Progress {
	width := 0
	for _, r := range verify.Rows() {
		width = max(width, len(r.ID))
	}
	out := v.out
	if v.asJSON { // progress
		out = v.log
	}
	style := command.StyleOf(out)
	p := verify.Progress{End: func(r verify.Result) {
		outcome, detail := style.Weak("skip"), r.Reason
		switch r.Outcome {
		case verify.Pass:
			outcome, detail = style.Good("pass"), r.Expected+"; observed: "+r.Noted()
		case verify.Fail:
			outcome, detail = style.Bad("FAIL"), r.Expected+"; observed: "+r.Noted()
		case verify.Skip:
			if !v.all {
				return
			}
		}
		fmt.Fprintf(out, "%s  %-*s  %s\n", outcome, width, r.Row, detail)
	}}
	if command.IsTerminal(out) { // the next line replaces this one
		p.Begin = func(r verify.Row) { fmt.Fprintf(out, "\r\x1b[K      %s ...\r", r.ID) }
	}
	return p
}

// print prints the answers behind failures and the totals, or JSON.
func (v *verifier) print(all verified) error {
	if v.asJSON {
		all.Rows = verify.Public(all.Rows, v.hosts()...)
		return command.PrintJSON(v.out, all)
	}
	for _, r := range all.Rows {
		if r.Outcome == verify.Fail {
			fmt.Fprintf(v.out, "\n%s: %s\nby hand: %s\n%s\n", command.StyleOf(v.out).Bold(r.Row), r.Claim, r.Hand, cmp.Or(r.Raw, "no answer to show"))
		}
	}
	fmt.Fprintf(v.out, "\n%d passed, %d failed, %d skipped; %d requests\n", all.Passed, all.Failed, all.Skipped, all.Requests)
	used := 0
	for _, r := range all.Rows {
		if r.Reason == verify.UsedUp {
			used++
		}
	}
	if used > 0 {
		fmt.Fprintf(v.out, "%d rows were skipped because a limit is used up: run again after its window, or raise --wait\n", used)
	}
	return nil
}
