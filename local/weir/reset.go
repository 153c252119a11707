package main

import (
	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func resetCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "reset SUBJECT",
		Short: "Reset a caller's usage of every limit",
		Long: "Reset the usage of every limit that counts by a subject, such as a caller, and print the usage before the reset. The command " +
			"removes all state of the subject from the store. " +
			"Other subjects of the same caller keep their usage, such as an address, a claim or an endpoint. weir explain shows which limits " +
			"still refuse." +
			subjectHelp + targetHelp,
		Example: "  weir reset user:alice\n" +
			"  weir reset 'claim:org=acme|user:alice' --json\n" +
			"  weir reset apikey:acme \\\n    --store dynamodb://Weir-prod-LimitsCounters1234 --namespace prod",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return t.each(c, func(to operating) (any, func(*printer), error) {
				u, err := to.Reset(c.Context(), args[0])
				return u, func(p *printer) { p.reset(u) }, err
			})
		},
	}
	t.flags(c)
	return c
}

func (p *printer) reset(u operator.Usage) {
	if len(u.Limits) == 0 {
		p.line("%s: the limits of the rules had no usage", p.Bold(u.Subject))
	} else {
		p.line("%s: reset %s; the usage before the reset was:", p.Bold(u.Subject), plural(len(u.Limits), "limit"))
	}
	p.limits(u.Limits, u.At, usageOf)
	p.notes(u.Notes)
}
