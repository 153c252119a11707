package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func edgeListFlag(f *pflag.FlagSet, arn *string) {
	f.StringVar(arn, "edge-list", os.Getenv(contract.VariableEdgeList), "the ARN of the list of callers whom a distribution refuses (output EdgeList of the stack); default $EDGE_LIST")
}

// printUnlisted prints how many entries a command has removed from the list of a distribution.
func printUnlisted(out io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(out, "removed from the list of the distribution: %d\n", n)
	}
}

// openList returns the list of a distribution; nil without an ARN.
func openList(ctx context.Context, arn string) (edge.Store, error) {
	return boot.Config{EdgeList: arn, Clients: clients.Default()}.OpenList(ctx)
}

// printEdge prints the entries of a distribution's list. version is that of the rules in force; 0 if it is not known.
func printEdge(out io.Writer, all []operator.EdgeRefusal, version int64, at time.Time) {
	for _, r := range all {
		limit := printable(r.Limit)
		if version != 0 && r.Version != version {
			limit += " of rules of " + command.RulesVersion(r.Version)
		}
		if r.CredentialsPass {
			limit += ", except with a credential"
		}
		fmt.Fprintf(out, "%s the distribution refuses %s until %s (%s), by limit %s; weir reset %s removes the entry\n",
			command.StyleOf(out).Bold("edge"), r.Subject, r.Until.Local().Format(time.DateTime+" MST"), seconds(r.Until.Sub(at).Seconds()), limit, r.Subject)
	}
}

// retire ends the entries of rules before a version, which is in force. Without an ARN, it does nothing.
func retire(ctx context.Context, arn string, version int64) error {
	list, err := openList(ctx, arn)
	if list != nil && err == nil {
		err = edge.Retire(ctx, list, version)
	}
	if err != nil {
		return fmt.Errorf("%s is published, but the list of the distribution did not change: %w; it can refuse callers by older rules until their waits end or a function reports the new rules; "+
			"to change only the list, run weir rules get | weir rules publish - with the same flags", command.RulesVersion(version), err)
	}
	return nil
}
