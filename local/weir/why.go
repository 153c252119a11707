package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		Args: atMostOne("CALLER"),
		RunE: func(c *cobra.Command, args []string) error {
			caller := strings.Join(args, "")
			gateway, err := operator.NewGateway(o.url)
			if err != nil {
				return usageOrFailure(err)
			}
			q := why.Question{Subject: caller, Since: o.since.String(), Shadow: o.shadow, Number: o.number}
			r, err := operator.Ask[why.Refusals](c.Context(), gateway, why.Path, q)
			if err != nil {
				return usageOrFailure(err)
			}
			return show(c, r, func(p *printer) { o.print(p, caller, r) })
		},
	}
	f := c.Flags()
	gatewayFlag(f, &o.url)
	f.DurationVar(&o.since, "since", time.Hour, "the period before now")
	f.BoolVar(&o.shadow, "shadow", false, "show what limits in shadow mode would have refused")
	f.IntVarP(&o.number, "number", "n", 20, "maximum number of rows")
	addJSON(f)
	return c
}

type whyOptions struct {
	url    string
	since  time.Duration
	shadow bool
	number int
}

func (o *whyOptions) print(p *printer, caller string, a why.Refusals) {
	what := "refused"
	if o.shadow {
		what = "would have been refused by limits in shadow mode"
	}
	if caller != "" {
		caller += ": "
	}
	p.line("%s%d %s in the last %s at %s", p.Bold(printable(caller)), a.Count, what, seconds(o.since.Seconds()), o.url)
	if a.Count+a.Unnamed == 0 && caller != "" && !o.shadow {
		p.line("this does not count 401s; the log of the gateway or functions has them as \"credential refused\"")
	}
	if len(a.Rows) > 0 {
		o.printRows(p, a.Rows)
	}
	if a.Others > 0 {
		p.line("%d are not in the table; --number shows more rows", a.Others)
	}
	switch {
	case a.Unnamed > 0 && caller != "":
		p.line("%d more are in log lines that name no caller, and can be of this one", a.Unnamed)
	case a.Unnamed > 0:
		p.line("%d of them are in log lines that name no caller", a.Unnamed)
	}
}

func (o *whyOptions) printRows(p *printer, rows []why.Row) {
	const format = "2006-01-02 15:04:05 MST"
	table := [][]string{{"COUNT", "CALLER", "RULE", "LIMIT", "FIRST", "LAST", "LEFT THEN", "WAIT THEN"}}
	for _, r := range rows {
		limit, left, wait := cmp.Or(printable(r.Limit), "-"), "-", "-"
		if r.Blocked {
			limit = "(blocked)"
		}
		if r.Capacity > 0 {
			left, wait = fmt.Sprintf("%d of %d", r.Remaining, r.Capacity), seconds(r.RetryAfter)
		}
		table = append(table, []string{strconv.FormatInt(r.Count, 10), printable(cmp.Or(r.Caller, r.Subject)), cmp.Or(printable(r.Rule), "-"),
			limit, r.First.Local().Format(format), r.Last.Local().Format(format), left, wait})
	}
	if o.shadow { // such lines have no numbers of the limit
		for i := range table {
			table[i] = table[i][:6]
		}
	}
	p.table(table...)
	for _, r := range rows {
		if r.AddressFrom != "" {
			p.line("the last address of %s is from %s", printable(cmp.Or(r.Caller, r.Subject)), printable(r.AddressFrom))
		}
	}
}
