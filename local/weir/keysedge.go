package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/local/operator"
)

// unlist removes changed API keys from the list of the distribution: until the end of a wait, it would refuse them by
// their limits before the change.
func (o *keysOptions) unlist(ctx context.Context, out io.Writer, changed []apikeys.Key) error {
	remove, err := o.unlister(ctx)
	if remove == nil || err != nil {
		return err
	}
	var done []string
	for _, k := range changed {
		if k.ID == "" || slices.Contains(done, k.ID) {
			continue
		}
		done = append(done, k.ID)
		n, err := remove(k.ID)
		if err != nil {
			return fmt.Errorf("the keys are changed, but not the list of the distribution, which can refuse %s until the end of a wait: %w; run weir reset apikey:%s", k.ID, err, k.ID)
		}
		if !o.json {
			printUnlisted(out, n)
		}
	}
	return nil
}

// unlister returns a function that removes the entries of an id from the list: from that of a deployment, or that of a
// running weir serve. It is nil without a list.
func (o *keysOptions) unlister(ctx context.Context) (func(id string) (int, error), error) {
	switch {
	case o.local:
		client, err := operator.NewClient(cmp.Or(os.Getenv("WEIR_URL"), defaultGateway))
		if err != nil {
			return nil, err
		}
		return func(id string) (int, error) {
			u, err := client.Unlist(ctx, "apikey:"+id)
			if _, none := errors.AsType[*operator.NoGatewayError](err); none {
				return 0, nil
			}
			return u.Listed, err
		}, nil
	case o.edgeList == "":
		return nil, nil
	}
	list, err := openList(ctx, o.edgeList)
	return func(id string) (int, error) { return edge.RemoveOwner(ctx, list, time.Now(), id) }, err
}
