package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
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

// unlist removes changed API keys from the list of the distribution: until the end of a wait, it would refuse them by
// their limits before the change.
func (o *keysOptions) unlist(ctx context.Context, out io.Writer, changed []apikeys.Key) error {
	if o.edgeList == "" || o.local {
		return nil
	}
	list, err := boot.Config{EdgeList: o.edgeList, Clients: clients.Default()}.OpenList(ctx)
	if err != nil {
		return err
	}
	var done []string
	for _, k := range changed {
		if k.ID == "" || slices.Contains(done, k.ID) {
			continue
		}
		done = append(done, k.ID)
		n, err := edge.RemoveOwner(ctx, list, time.Now(), k.ID)
		if err != nil {
			return fmt.Errorf("the keys are changed, but not the list of the distribution, which can refuse %s until the end of a wait: %w; run weir reset apikey:%s with --edge-list", k.ID, err, k.ID)
		}
		if !o.json {
			printUnlisted(out, n)
		}
	}
	return nil
}
