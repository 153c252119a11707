package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
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
	"The limits take precedence over the tier and over the overrides of the rules. The command checks them against the rules in the table " +
	"or, with --rules, against a document."

func (l *limitFlags) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&l.limits, "limit", nil, "a limit for this caller only, such as search=5000/1m or month=2000000; may be repeated")
	c.Flags().StringVar(&l.anchor, "anchor", "", "first day of the caller's periods: 1 to 31, or monday to sunday; \"\" for the day in the "+
		"rules")
	c.Flags().BoolVar(&l.none, "no-limits", false, "remove the anchor and all limits that are for this caller only")
	l.tierFlags(c, "the limits and the tier")
}

// tierFlags adds the flags of the rules that a tier must fit.
func (l *limitFlags) tierFlags(c *cobra.Command, fitting string) {
	c.Flags().StringVar(&l.rules, "rules", "", "the rules document that "+fitting+
		" must fit (default: the published rules, else functions/rules.json; with --local, those of the last weir serve)")
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

// checked adds a check to the change: it fails if the new limits do not fit the rules of the
// deployment. table is the records table.
func (l *limitFlags) checked(ctx context.Context, progress io.Writer, table string, change *apikeys.LimitsChange) error {
	if change == nil {
		return nil
	}
	r, from, err := rulesInForce(ctx, table, l.rules)
	switch {
	case err != nil:
		return err
	case r == nil:
		fmt.Fprintln(progress, "weir: warning:", unchecked(table, "limits are"))
		return nil
	}
	change.Check = func(limits *caller.Limits) error {
		if err := r.CheckLimits(limits); err != nil {
			return fmt.Errorf("limits do not fit %s:\n%w", from, err)
		}
		return nil
	}
	return nil
}

// checkTier returns an error if the rules do not name the tier: the caller would get the limits of default_tier. It prints a
// warning if the rules are unknown.
func (l *limitFlags) checkTier(ctx context.Context, progress io.Writer, table, tier string) error {
	if tier == "" {
		return nil
	}
	r, from, err := rulesInForce(ctx, table, l.rules)
	switch {
	case err != nil:
		return err
	case r == nil:
		_, err := fmt.Fprintln(progress, "weir: warning:", unchecked(table, "tier is"))
		return err
	}
	if err := r.CheckTier(tier); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// unchecked explains that no rules were found. table is "" for the keys of weir serve.
func unchecked(table, what string) string {
	if table == "" {
		return "no rules document here, so the " + what + " not checked; name the document of weir serve with --rules"
	}
	return "the table has no rules, so the " + what + " not checked; name the rules document of the deployment with --rules"
}

// rulesInForce returns the rules in a file. Without a file, it returns the published rules if there is a table, or else
// those of defaultRules, or nil. from is the name of the document in messages.
func rulesInForce(ctx context.Context, table, file string) (r *rules.Rules, from string, err error) {
	var document []byte
	from = file
	if file == "" && table != "" {
		client, err := openRecords(ctx, table)
		if err != nil {
			return nil, "", err
		}
		v, published, err := rulestore.New(client, table).Get(ctx, 0)
		if err == nil {
			document, from = published, nameOf(v)
		} else if !errors.Is(err, rulestore.ErrNoRules) {
			return nil, "", explainRecords(table, err)
		}
	}
	if document == nil {
		if file == "" {
			file, from = defaultRules(table)
			if file == "" {
				return nil, "", nil
			}
		}
		document, err = os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("--rules: %w", err)
		}
	}
	r, err = checkout.ParseRules(document)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", from, err)
	}
	return r, from, nil
}

// defaultRules returns the document of the last weir serve if there is no table, or else that of the checkout, and its name
// in messages. It returns "" if there is none.
func defaultRules(table string) (file, from string) {
	if table == "" {
		file = checkout.LocalRules()
		return file, file
	}
	c, err := checkout.Find()
	if err != nil {
		return "", ""
	}
	return c.Path("functions", "rules.json"), "functions/rules.json (the table has no rules)"
}
