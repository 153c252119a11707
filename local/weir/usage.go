package main

import (
	"cmp"
	"strings"
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
			"and an API key those of the tier in its record. The command charges nothing." +
			subjectHelp + targetHelp,
		Example: "  weir usage user:alice\n" +
			"  weir usage ip:203.0.113.7 --json\n" +
			"  weir usage apikey:acme --store redis://127.0.0.1:6379 --namespace prod",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return t.each(c, func(to operating) (any, func(*printer), error) {
				u, err := to.Usage(c.Context(), args[0])
				return u, func(p *printer) { p.usage(u) }, err
			})
		},
	}
	t.flags(c)
	return c
}

func (p *printer) usage(u operator.Usage) {
	p.line("%s, under rules of %s%s", p.Bold(u.Subject), command.RulesVersion(u.Version), sourceOf(u.Source))
	p.hash(u.Hash)
	p.interventions(u.Interventions)
	p.line("\n%s", p.Bold("limits"))
	if len(u.Limits) == 0 {
		p.line("  the rules have no limit for this subject")
	}
	p.limits(u.Limits, u.At, barOf)
	p.notes(u.Notes)
}

// barOf returns a bar with the used part of a limit's capacity, or of this region's share of it, and the usage as text.
func barOf(l operator.LimitUsage, at time.Time) string {
	const width = 20
	has := cmp.Or(l.State.Share, l.State.Capacity)
	if has <= 0 {
		return usageOf(l, at)
	}
	used := int((has - l.State.Remaining) * width / has)
	return "[" + strings.Repeat("#", used) + strings.Repeat(".", width-used) + "] " + usageOf(l, at)
}
