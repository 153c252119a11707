package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/why"
)

func whyCommand() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:   "why [CALLER]",
		Short: "Show why a caller was refused, or who was refused most",
		Long: "Show when a caller was refused, how often, by which rule and limit, how much was left and how long to wait. Without CALLER, " +
			"list the callers with the most refusals. " +
			"CALLER is the strongest identity of the caller: user:alice, apikey:acme (the id of the key's record) or ip:203.0.113.7. The logs " +
			"have no path, so the command shows a rule as its pattern. A limit whose per lacks endpoint counts for several rules, so the command " +
			"shows its name.\n\n" +
			"The command queries the gateway on this machine (--url, or the variable WEIR_URL), which keeps the last 10,000 log lines. A " +
			"deployed stack has saved queries of CloudWatch Logs Insights instead, where callers are hashes: weir usage prints the hash of a " +
			"caller.\n\n" +
			"The functions write one line a second for a caller, and twenty for an environment. A line counts all refusals since the previous " +
			"line. FIRST and LAST are the times of lines. weir usage shows what is left now.",
		Example: "  weir why user:alice --since 10m\n" +
			"  weir why --shadow --json",
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
			a, err := o.ask(c.Context(), strings.Join(args, ""))
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
	f.DurationVar(&o.since, "since", time.Hour, "the period before now")
	f.BoolVar(&o.shadow, "shadow", false, "show what limits in shadow mode would have refused")
	f.IntVarP(&o.number, "number", "n", 20, "maximum number of rows")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return c
}

type whyOptions struct {
	url          string
	since        time.Duration
	shadow, json bool
	number       int
}

func (o *whyOptions) ask(ctx context.Context, caller string) (why.Answer, error) {
	switch {
	case o.since <= 0:
		return why.Answer{}, command.Usage("--since: got %s, want a period such as 10m", o.since)
	case o.number < 1 || o.number > why.MaxRows:
		return why.Answer{}, command.Usage("--number: got %d, want 1 to %d", o.number, why.MaxRows)
	}
	q := why.Question{Subject: caller, Since: o.since.String(), Shadow: o.shadow, Number: o.number}
	client, err := operator.NewClient(o.url)
	if err != nil {
		return why.Answer{}, err
	}
	return why.Ask(ctx, client, q)
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
	fmt.Fprintf(out, "%s%d %s in the last %s at %s\n", s.Bold(printable(caller)), a.Count, what, seconds(o.since.Seconds()), o.url)
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
	return nil
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
		limit := cmp.Or(printable(r.Limit), "-")
		if r.Blocked {
			limit = "(blocked)"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s", r.Count, printable(cmp.Or(r.Caller, r.Subject)), cmp.Or(printable(r.Rule), "-"), limit,
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
