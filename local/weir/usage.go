package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

const subjectHelp = "\n\nSUBJECT has the form that explain prints: user:alice, apikey:acme (the id of the key's record), " +
	"ip:203.0.113.7, claim:org=acme, path:id=7, method:GET, header:x-tenant=a, endpoint:GET:/api/v1/search, global, " +
	"or custom:kind=value for a subject that an API charges itself. Join several identities with | in this order: claim, header, method " +
	"and path by name, then apikey, ip, user. " +
	"Add |endpoint:METHOD:PATTERN if the store has a separate item for the endpoint."

func usageCommand() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "usage SUBJECT",
		Short: "Show a caller's usage of every limit",
		Long: "Show the usage of every limit that the rules have for a subject, such as a caller. Only a token contains a tier. So a user has " +
			"the limits of every tier. An address has the limits of the default tier, " +
			"and an API key those of the tier in its record. Also show state in the store that no rule describes. The command charges nothing." +
			subjectHelp + targetHelp,
		Example: "  weir usage user:alice\n" +
			"  weir usage ip:203.0.113.7 --json\n" +
			"  weir usage apikey:acme --store redis --redis-url redis://127.0.0.1:6379 --namespace prod",
		Args:              command.Exactly(1),
		ValidArgsFunction: completeSubject,
		RunE: func(c *cobra.Command, args []string) error {
			return usageOrFailure(t.each(c, func(to operating) (any, func(io.Writer) error, error) {
				i, err := to.Usage(c.Context(), args[0])
				return i, func(out io.Writer) error { return printUsage(out, i) }, err
			}))
		},
	}
	t.flags(c)
	return c
}

// completeSubject completes the first word of a subject, such as "user:".
func completeSubject(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"user:", "apikey:", "ip:", "claim:", "path:", "method:", "header:", "endpoint:", "custom:", "global"},
		cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func printUsage(out io.Writer, i operator.Usage) error {
	s := command.StyleOf(out)
	fmt.Fprintf(out, "%s, under rules of %s%s\n", s.Bold(i.Subject), command.RulesVersion(i.Version), sourceOf(i.Source))
	printHash(out, s, i.Hash)
	printInterventions(out, i.Interventions)
	fmt.Fprintf(out, "\n%s\n", s.Bold("limits"))
	if len(i.Limits) == 0 {
		fmt.Fprintln(out, "  the rules have no limit for this subject")
	}
	if err := printLimits(out, i.Limits, i.At, barOf); err != nil {
		return err
	}
	if err := printOthers(out, s, i.Others, i.At); err != nil {
		return err
	}
	return printNotes(out, s, i.Notes)
}

// barOf returns a bar with the used part of a limit's capacity, or of this region's share of it, and the usage as text.
func barOf(l operator.Limit, at time.Time) string {
	const width = 20
	has := cmp.Or(l.State.Share, l.State.Capacity)
	if has <= 0 {
		return usageOf(l, at)
	}
	used := int((has - l.State.Remaining) * width / has)
	return "[" + strings.Repeat("#", used) + strings.Repeat(".", width-used) + "] " + usageOf(l, at)
}

// printOthers prints the state of limits that no rule describes.
func printOthers(out io.Writer, s command.Style, others []operator.Other, at time.Time) error {
	if len(others) == 0 {
		return nil
	}
	fmt.Fprintf(out, "%s\n", s.Bold("in the store, but in no rule"))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, o := range others {
		full := "full"
		if d := o.FullAt.Sub(at); d > 0 {
			full = "full in " + seconds(d.Seconds())
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\trules of %s\t%d of %d left, %s\n", o.ID, o.Subject, o.Parameters, command.RulesVersion(o.Version),
			o.Remaining, o.Capacity, full)
	}
	return t.Flush()
}
