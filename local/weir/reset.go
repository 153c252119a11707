package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func resetCommand() *cobra.Command {
	var t target
	var yes bool
	c := &cobra.Command{
		Use:   "reset SUBJECT",
		Short: "Reset a caller's usage of every limit",
		Long: "Reset the usage of every limit that counts by a subject, such as a caller, and print the usage before the reset. The command " +
			"removes all state of the subject from the store. " +
			"Other subjects of the same caller keep their usage, such as an address, a claim or an endpoint. weir explain shows which limits " +
			"still refuse.\n\n" +
			"On a terminal, the command asks for confirmation before it changes the store of a deployment (--store), unless --yes is given." +
			subjectHelp + targetHelp,
		Example: "  weir reset user:alice\n" +
			"  weir reset 'claim:org=acme|user:alice' --json\n" +
			"  weir reset apikey:acme --yes \\\n    --store dynamodb --table Weir-prod-LimitsCounters1234 --namespace prod",
		Args:              command.Exactly(1),
		ValidArgsFunction: completeSubject,
		RunE: func(c *cobra.Command, args []string) error {
			if t.store != "" && !yes && isPerson(c.InOrStdin()) {
				if err := confirm(c.Context(), c.InOrStdin(), c.ErrOrStderr(), fmt.Sprintf("Reset the usage of %s in %s?", args[0],
					t.where())); err != nil {
					return err
				}
			}
			return usageOrFailure(t.each(c, func(to operating) (any, func(io.Writer) error, error) {
				f, err := to.Reset(c.Context(), args[0])
				return f, func(out io.Writer) error { return printReset(out, f) }, err
			}))
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	t.flags(c)
	return c
}

func printReset(out io.Writer, f operator.Usage) error {
	s := command.StyleOf(out)
	held := len(f.Limits) + len(f.Others)
	if held == 0 {
		fmt.Fprintf(out, "%s: nothing to reset; the store has no usage of this subject\n", s.Bold(f.Subject))
		return printNotes(out, s, f.Notes)
	}
	fmt.Fprintf(out, "%s: reset %s; the usage before the reset was:\n", s.Bold(f.Subject), plural(held, "limit"))
	if err := printLimits(out, f.Limits, f.At, usageOf); err != nil {
		return err
	}
	if err := printOthers(out, s, f.Others, f.At); err != nil {
		return err
	}
	return printNotes(out, s, f.Notes)
}
