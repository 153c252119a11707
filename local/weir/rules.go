package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/local/command"
)

func rulesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Put rules into the records table of a deployment, and look at the versions there",
		Long: "Put rules into the records table of a deployment, and look at the versions there. A deployment with the setting rulesFrom=table decides by the " +
			"newest version within a minute. Each put, also of an old document, is a new, higher version, because what was counted by a version is not converted to a lower one. " +
			"The region and the credentials are those of the AWS configuration (AWS_REGION, AWS_PROFILE and so on).",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Usage("got %q, want one of diff, get, history, publish, rollbackback", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var o rulesOptions
	c.PersistentFlags().StringVar(&o.table, "table", os.Getenv("RECORDS_TABLE"), "the records table; default $RECORDS_TABLE")
	c.PersistentFlags().BoolVar(&o.json, "json", false, "print JSON")
	c.AddCommand(publishCommand(&o), getCommand(&o), diffCommand(&o), historyCommand(&o), rollbackCommand(&o))
	return c
}

// rulesOptions are those of all commands on the rules in a table.
type rulesOptions struct {
	table    string
	json     bool
	maxDelay time.Duration

	restartCounts bool // put also what counts in other items
}

func (o *rulesOptions) open(ctx context.Context) (*rulestore.Versions, error) {
	client, err := openRecords(ctx, o.table)
	if err != nil {
		return nil, err
	}
	return rulestore.New(client, o.table), nil
}

// explain says what to do about an error.
func (o *rulesOptions) explain(err error) error {
	if errors.Is(err, rulestore.ErrConflict) {
		return fmt.Errorf("%w: look at weir rules history, and try again", err)
	}
	return explainRecords(o.table, err)
}

// publishFlags adds the flags of those commands that put something into force.
func (o *rulesOptions) publishFlags(c *cobra.Command) {
	c.Flags().BoolVar(&o.restartCounts, "restart-counts", false, "also if limits are counted in other items from then on, so that their counts restart")
	c.Flags().DurationVar(&o.maxDelay, "max-delay", 0, "the deployment's setting maxDelay, if it has one: leaky buckets are no deeper")
}

const noteUsage = "why, for people: up to 200 bytes, which the history shows"

func publishCommand(o *rulesOptions) *cobra.Command {
	var note string
	var after int64
	c := &cobra.Command{
		Use:   "publish FILE",
		Short: "Put a rules document into force, and show what changes",
		Long: "Put a rules document into force as a new version, and show what changes. It is read as the functions read it; one with mistakes is refused, with all of them, and " +
			"one that says the same as that in force is not put again. One that counts limits in other items, because a caller then has more of them than one item holds, or no longer so many, is refused with their names " +
			"unless --restart-counts is given. Its version is higher than all before: the time in Unix seconds, or what the document says itself if that is more. " +
			"Of two who put at once one is refused; with --after VERSION so is whoever prepared a change of another version than that in force. FILE may be -, the standard input. The exit status is 1 if it was refused.",
		Example: "  weir rules publish rules.json --table Weir-prod-LimitsRecords --note 'more for paid'",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			document, err := readDocument(c.Context(), c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return o.publish(c.Context(), c.OutOrStdout(), proposal{args[0], document}, note, after)
		},
	}
	c.Flags().StringVar(&note, "note", "", noteUsage)
	c.Flags().Int64Var(&after, "after", 0, "put it only if this version is in force; default whichever is")
	o.publishFlags(c)
	return c
}

func getCommand(o *rulesOptions) *cobra.Command {
	var version int64
	c := &cobra.Command{
		Use:     "get",
		Short:   "Print the rules document in force, or another version of it",
		Long:    "Print the rules document in force, or another version of it, as it was put. With --json it stands in an object beside its version, note and time.",
		Example: "  weir rules get > rules.json\n  weir rules get --version 1772625602",
		Args:    command.Exactly(0),
		RunE:    func(c *cobra.Command, _ []string) error { return o.get(c.Context(), c.OutOrStdout(), version) },
	}
	c.Flags().Int64Var(&version, "version", 0, "the version; default the one in force")
	return c
}

func diffCommand(o *rulesOptions) *cobra.Command {
	var from, to int64
	c := &cobra.Command{
		Use:   "diff [FILE]",
		Short: "Show what differs between versions, or what a put would change",
		Long: "Show what differs between two versions of the rules or, with a FILE, between a version and that file: what a put would change. " +
			"Documents are compared by what they say, and not by their white space. The exit status is 0 whether they differ or not.",
		Example: "  weir rules diff rules.json\n  weir rules diff --from 1772625602",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && from == 0 || len(args) == 1 && to != 0 {
				return command.Usage("want a FILE, or --from VERSION, with --to VERSION if that is not the one in force")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return o.diff(c.Context(), c.OutOrStdout(), from, to, nil)
			}
			document, err := readDocument(c.Context(), c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return o.diff(c.Context(), c.OutOrStdout(), from, 0, &proposal{args[0], document})
		},
	}
	c.Flags().Int64Var(&from, "from", 0, "the version that is compared; default the one in force")
	c.Flags().Int64Var(&to, "to", 0, "the version with which; default the one in force")
	return c
}

func historyCommand(o *rulesOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "history",
		Short:   fmt.Sprintf("List the last %d versions of the rules, the newest first", rulestore.Kept),
		Example: "  weir rules history --json",
		Args:    command.Exactly(0),
		RunE:    func(c *cobra.Command, _ []string) error { return o.history(c.Context(), c.OutOrStdout()) },
	}
}

func rollbackCommand(o *rulesOptions) *cobra.Command {
	var to int64
	var note string
	c := &cobra.Command{
		Use:   "rollback",
		Short: "Put an old version of the rules into force again, as a new version",
		Long: "Put an old version of the rules into force again, as a new, higher version: that before the one in force, or another one that is kept. It shows what changes, " +
			"and is checked as a put is.",
		Example: "  weir rules rollback\n  weir rules rollback --to 1772625602",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return o.rollback(c.Context(), c.OutOrStdout(), to, note)
		},
	}
	c.Flags().Int64Var(&to, "to", 0, "the version; default the one before that in force")
	c.Flags().StringVar(&note, "note", "", noteUsage+"; default which version it was")
	o.publishFlags(c)
	return c
}
