package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/local/command"
)

// limitFlags are the flags that set limits in the record of an API key.
type limitFlags struct {
	limits []string
	anchor string
	none   bool
	rules  string
}

const limitsHelp = "\n\n--limit NAME=REQUESTS/WINDOW or NAME=REQUESTS replaces the numbers of a limit of the rules for this caller; " +
	"NAME= removes them. " +
	"A limit with a period takes only a number, and --anchor sets the first day of its period. " +
	"The limits take precedence over the tier and over the overrides of the rules. The command checks them against the rules in force " +
	"or, with --rules, against a document."

func (l *limitFlags) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&l.limits, "limit", nil, "a limit for this caller only, such as search=5000/1m or month=2000000; may be repeated")
	c.Flags().StringVar(&l.anchor, "anchor", "", "first day of the caller's periods: 1 to 31, or monday to sunday; \"\" for the day in the "+
		"rules")
	c.Flags().BoolVar(&l.none, "no-limits", false, "remove the anchor and all limits that are for this caller only")
	l.rulesFlag(c)
}

// rulesFlag adds the flag of the rules that tiers and limits must fit.
func (l *limitFlags) rulesFlag(c *cobra.Command) {
	c.Flags().StringVar(&l.rules, "rules", "", "the rules document that tiers and limits must fit (default: the rules in force, else "+
		"functions/rules.json; with --local, those of the last weir serve)")
}

// change returns the change that the flags request, or nil if no flag is set.
func (l *limitFlags) change(c *cobra.Command) (*apikeys.LimitsChange, error) {
	if len(l.limits) == 0 && !l.none && !c.Flags().Changed("anchor") {
		return nil, nil
	}
	change := &apikeys.LimitsChange{Clear: l.none, Rates: map[string]caller.Rate{}}
	if c.Flags().Changed("anchor") {
		change.Anchor = &l.anchor
	}
	for _, text := range l.limits {
		name, rate, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, command.Usage("--limit: got %q, want NAME=REQUESTS/WINDOW or NAME=REQUESTS, such as search=5000/1m, or NAME= to remove a "+
				"limit", text)
		}
		if _, twice := change.Rates[name]; twice {
			return nil, command.Usage("--limit: got two limits %s, want one", name)
		}
		change.Rates[name] = (caller.Rate{})
		if rate == "" {
			continue
		}
		var err error
		change.Rates[name], err = caller.ParseRate(rate)
		if err != nil {
			return nil, command.Usage("--limit %s: %v", text, err)
		}
	}
	return change, nil
}

// check returns an error if a tier is one that the rules do not name: the caller would get the limits of default_tier. It
// adds a check of its limits to the change; nil changes none. If no rules are known, it only warns.
func (l *limitFlags) check(c *cobra.Command, of *deployed, change *apikeys.LimitsChange, tiers ...string) error {
	tiers = slices.DeleteFunc(tiers, func(tier string) bool { return tier == "" })
	if change == nil && len(tiers) == 0 {
		return nil
	}
	r, from, err := of.rules(c.Context(), l.rules)
	if err != nil {
		return err
	}
	if r == nil {
		fmt.Fprintln(c.ErrOrStderr(), "weir: warning: found no rules, so tiers and limits are not checked; name the rules document of the "+
			"deployment or of weir serve with --rules")
		return nil
	}
	for _, tier := range tiers {
		if err := r.CheckTier(tier); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	if change != nil {
		change.Check = func(limits *caller.Limits) error {
			if err := r.CheckLimits(limits); err != nil {
				return fmt.Errorf("limits do not fit %s:\n%w", from, err)
			}
			return nil
		}
	}
	return nil
}
