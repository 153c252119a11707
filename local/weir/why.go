package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/why"
)

func whyCommand() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:   "why [CALLER]",
		Short: "Show why a caller was refused, or who was refused most",
		Long: "Show when a caller was refused, how often, by which rule and limit, how much was left and how long to wait. Without CALLER, list the callers with the most refusals. " +
			"CALLER is the strongest identity of the caller: user:alice, apikey:acme (the id of the key's record) or ip:203.0.113.7. The logs have no path, so the command shows a rule as its pattern. A limit whose per lacks endpoint counts for several rules, so the command shows its name.\n\n" +
			"The command queries the gateway on this machine (--url, or the variable WEIR_URL), which keeps the last 10,000 log lines. With --stack it queries the logs of a deployment with CloudWatch Logs Insights, where callers are hashes: weir usage prints the hash of a caller. " +
			"That query costs $0.005 for each GB of logs in the period.\n\n" +
			"The functions write one line a second for a caller, and twenty for an environment. A line counts all refusals since the previous line. FIRST and LAST are the times of lines. weir usage shows what is left now. Refusals of the last second of a deployment can be missing.",
		Example: "  weir why user:alice --since 10m\n" +
			"  weir why --shadow\n" +
			"  weir why ip:203.0.113.7 --stack Weir-prod --since 3h --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usage("arguments: got %q, want one CALLER, or none", args)
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return []string{"user:", "apikey:", "ip:"}[min(3*len(args), 3):], cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.progress = c.ErrOrStderr()
			a, err := o.ask(c, strings.Join(args, ""))
			if err != nil {
				return usageOrFailure(err)
			}
			if o.json {
				return command.PrintJSON(c.OutOrStdout(), a)
			}
			return o.print(c.OutOrStdout(), strings.Join(args, ""), a)
		},
	}
	f := c.Flags()
	f.StringVar(&o.url, "url", cmp.Or(os.Getenv("WEIR_URL"), defaultGateway), "the gateway on this machine; default $WEIR_URL")
	f.StringVar(&o.stack, "stack", "", "query the logs of this CloudFormation stack instead")
	f.StringVar(&o.edgeList, "edge-list", "", "with --stack, the ARN of the list of callers whom a distribution refuses; default: the output EdgeList of the stack")
	f.StringVar(&o.region, "region", "", "with --stack, the region of the stack; default $AWS_REGION")
	f.DurationVar(&o.since, "since", time.Hour, "the period before now")
	f.BoolVar(&o.shadow, "shadow", false, "show what limits in shadow mode would have refused")
	f.IntVarP(&o.number, "number", "n", 20, "maximum number of rows")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return c
}

type whyOptions struct {
	url, stack, region, edgeList string
	since                        time.Duration
	shadow, json                 bool
	number                       int
	progress                     io.Writer
}

func (o *whyOptions) ask(c *cobra.Command, caller string) (why.Answer, error) {
	switch {
	case o.since <= 0:
		return why.Answer{}, command.Usage("--since: got %s, want a period such as 10m", o.since)
	case o.number < 1 || o.number > why.MaxRows:
		return why.Answer{}, command.Usage("--number: got %d, want 1 to %d", o.number, why.MaxRows)
	case o.stack != "" && c.Flags().Changed("url"):
		return why.Answer{}, command.Usage("--url and --stack: got both, want one of them")
	case o.stack == "" && o.region != "":
		return why.Answer{}, command.Usage("--region: requires --stack")
	case o.stack == "" && o.edgeList != "":
		return why.Answer{}, command.Usage("--edge-list: requires --stack")
	}
	q := why.Question{Subject: caller, Since: o.since.String(), Shadow: o.shadow, Number: o.number}
	if o.stack != "" {
		return o.askStack(c.Context(), q)
	}
	client, err := operator.NewClient(o.url)
	if err != nil {
		return why.Answer{}, err
	}
	return why.Ask(c.Context(), client, q)
}

// askStack queries the log groups of a stack.
func (o *whyOptions) askStack(ctx context.Context, q why.Question) (why.Answer, error) {
	if q.Subject != "" { // a mistake must not cost calls of AWS
		if _, err := why.ParseCaller(q.Subject, 0); err != nil {
			return why.Answer{}, err
		}
	}
	stack, settings, err := openStack(ctx, o.stack, o.region)
	if err != nil {
		return why.Answer{}, err
	}
	logs := stack.Logs()
	if len(logs.Groups) == 0 {
		return why.Answer{}, fmt.Errorf("--stack: %s has no function of Weir with a log group", o.stack)
	}
	var hash string
	bits, _ := strconv.Atoi(logs.IPv6Bits) // 0 means the default
	if q.Subject != "" {
		subject, err := why.ParseCaller(q.Subject, bits)
		if err != nil {
			return why.Answer{}, err
		}
		key, _, err := records.SubjectKey(ctx, dynamodb.NewFromConfig(settings), logs.RecordsTable)
		if err != nil {
			return why.Answer{}, explainRecords(logs.RecordsTable, err)
		}
		hash = telemetry.NewSubjectHash(logs.Namespace, key)(subject)
	}
	l := why.Logs{Client: cloudwatchlogs.NewFromConfig(settings), Groups: logs.Groups, Wait: verify.Sleep, Progress: o.progress}
	a, err := l.Ask(ctx, q, hash, time.Now(), o.since)
	if arn := cmp.Or(o.edgeList, stack.Outputs["EdgeList"]); arn != "" && err == nil {
		if unread := a.AddEdge(ctx, clients.Default().List(settings, arn), q, bits); unread != nil { // the answer is useful without it
			fmt.Fprintf(o.progress, "weir: warning: the list of the distribution cannot be read, so the answer does not say whether it refuses the caller: %v\n", unread)
		}
	}
	return a, err
}

func (o *whyOptions) print(out io.Writer, caller string, a why.Answer) error {
	s := command.StyleOf(out)
	what := "refused"
	if o.shadow {
		what = "would have been refused by limits in shadow mode"
	}
	if caller != "" {
		caller += ": "
	}
	fmt.Fprintf(out, "%s%d %s in the last %s at %s\n", s.Bold(printable(caller)), a.Count, what, seconds(o.since.Seconds()), o.where())
	if a.Count+a.Unnamed == 0 && caller != "" && !o.shadow {
		fmt.Fprintln(out, "this does not count 401s; the log of the gateway or functions has them as \"credential refused\"")
	}
	if len(a.Rows) > 0 {
		if err := o.printRows(out, a.Rows); err != nil {
			return err
		}
	}
	if a.Others > 0 {
		fmt.Fprintf(out, "%d are not in the table; --number shows more rows\n", a.Others)
	}
	if a.Unnamed > 0 {
		format := "%d of them are in log lines that name no caller\n"
		if caller != "" {
			format = "%d more are in log lines that name no caller, and can be of this one\n"
		}
		fmt.Fprintf(out, format, a.Unnamed)
	}
	if a.Distribution && !o.shadow {
		fmt.Fprintln(out, "requests that the distribution in front refused are in no log line, and not counted")
		printEdge(out, a.Edge, 0, a.To)
	}
	if a.Partial {
		fmt.Fprintln(out, "the logs have more callers than one query returns, so each number is a minimum; ask for a shorter period")
	}
	return nil
}

// where returns the source of the log lines.
func (o *whyOptions) where() string {
	if o.stack != "" {
		return "the stack " + o.stack
	}
	return o.url
}

func (o *whyOptions) printRows(out io.Writer, rows []why.Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head, last := "COUNT\tCALLER\tRULE\tLIMIT\tFIRST\tLAST", "\tLEFT THEN\tWAIT THEN\n"
	if o.shadow { // such lines have no numbers of the limit
		last = "\n"
	}
	fmt.Fprint(table, head, last)
	for _, r := range rows {
		const format = "2006-01-02 15:04:05 MST"
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s", r.Count, printable(cmp.Or(r.Caller, r.Subject)), cmp.Or(printable(r.Rule), "-"), cmp.Or(printable(r.Limit), "-"),
			r.First.Local().Format(format), r.Last.Local().Format(format))
		switch {
		case o.shadow:
			fmt.Fprintln(table)
		case r.Capacity > 0:
			fmt.Fprintf(table, "\t%d of %d\t%s\n", r.Remaining, r.Capacity, seconds(r.RetryAfter))
		default:
			fmt.Fprint(table, "\t-\t-\n")
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.AddressFrom != "" {
			fmt.Fprintf(out, "the last address of %s is from %s\n", printable(cmp.Or(r.Caller, r.Subject)), printable(r.AddressFrom))
		}
	}
	return nil
}
