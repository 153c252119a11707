package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/local/command"
)

func rulesCommand() *cobra.Command {
	c := command.Group(&cobra.Command{
		Use:   "rules",
		Short: "Publish rules to a deployment, and manage the versions there",
		Long: "Publish rules to the records table of a deployment, and manage the versions there. A deployment with the setting " +
			"rulesFrom=table uses the newest version within a minute. Without the setting, functions use the rules of their deployment, and " +
			"publish fails.\n\n" +
			"Each publication gets a new, higher version, even if the document is old: to go back, publish what weir rules get --version " +
			"prints.\n\n" +
			"The AWS configuration sets the region and the credentials (AWS_REGION, AWS_PROFILE and so on).",
	})
	var o rulesOptions
	o.flags(c.PersistentFlags(), "")
	c.AddCommand(publishCommand(&o), getCommand(&o), historyCommand(&o))
	return c
}

func publishCommand(o *rulesOptions) *cobra.Command {
	var note string
	c := &cobra.Command{
		Use:   "publish FILE",
		Short: "Publish a rules document as a new version, and show the changes",
		Long: "Publish a rules document as a new version, and show the changes. FILE may be -, the standard input.\n\n" +
			"If the deployment of the namespace publishes its own rules, functions do not read this version, and the command fails. A deployment " +
			"that has changed to rulesFrom=table leaves its rules in the table; then set the variable RULES_FROM=table, as its functions have " +
			"it.\n\n" +
			"The command rejects a document with mistakes and prints all mistakes. It does not publish a document again that equals the version " +
			"in force. " +
			"A document can move limits of a caller to other items of the store. The counts of these limits then restart. The command rejects " +
			"such a document and names the limits, unless --restart-counts is given. It rejects a document that refuses no request, unless " +
			"--unlimited is given.\n\n" +
			"The new version is higher than all previous ones: the time in Unix seconds, or the version in the document if that is higher. " +
			"If two people publish at the same time, one publication fails. The exit status is then 1.",
		Example: "  weir rules publish rules.json --table Weir-prod-LimitsRecords --note 'more for paid'",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			document, err := readDocument(c.Context(), c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return o.publish(c, args[0], document, note)
		},
	}
	c.Flags().StringVar(&note, "note", "", "why, up to 200 bytes; the history shows it")
	c.Flags().BoolVar(&o.restartCounts, "restart-counts", false, "publish even if counts of limits restart")
	c.Flags().BoolVar(&o.unlimited, "unlimited", false, "publish even if no limit is left")
	c.Flags().DurationVar(&o.maxDelay, "max-delay", 0, "the setting maxDelay of the deployment, the maximum wait in a leaky bucket")
	return c
}

func getCommand(o *rulesOptions) *cobra.Command {
	var version int64
	var deployed bool
	c := &cobra.Command{
		Use:   "get",
		Short: "Print the newest published rules document, another version, or the deployment's",
		Long: "Print the newest published rules document, or another version, exactly as it was published. With --deployed, print the " +
			"document that the deployment of the namespace published: the rules in force without the setting rulesFrom. With --json, print an " +
			"object with the document, its version, its note and its time.",
		Example: "  weir rules get > rules.json\n  weir rules get --version 1772625602 > before.json\n  weir rules get --deployed --namespace " +
			"prod",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if deployed && (version != 0 || o.namespace == "") {
				return command.Usage("--deployed: want it with --namespace (or NAMESPACE), and without --version")
			}
			return o.get(c, version, deployed)
		},
	}
	c.Flags().BoolVar(&deployed, "deployed", false, "the document that the deployment of the namespace published")
	c.Flags().Int64Var(&version, "version", 0, "the version; default: the version in force")
	return c
}

func historyCommand(o *rulesOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "history",
		Short:   fmt.Sprintf("List the last %d versions of the rules, the newest first", rulestore.Kept),
		Example: "  weir rules history --json",
		Args:    command.Exactly(0),
		RunE:    func(c *cobra.Command, _ []string) error { return o.history(c) },
	}
}
