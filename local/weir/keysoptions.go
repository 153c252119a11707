package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

// keysOptions are the flags of weir keys.
type keysOptions struct {
	table string
	local bool
	json  bool
}

// check returns an error unless the flags name one source of keys. With --local it clears the table.
func (o *keysOptions) check(c *cobra.Command) error {
	switch {
	case !o.local && o.table == "":
		return command.Usage("%w; or --local, for the keys of weir serve", errNoTable)
	case o.local && c.Flags().Changed("table"):
		return command.Usage("--table and --local: got both, want one of them")
	case o.local:
		o.table = ""
		_, err := checkout.FindKeys()
		return err
	}
	return nil
}

// applied returns the text that says when a change applies: the text for a deployment, or that for --local.
func (o *keysOptions) applied(deployed string) string {
	if o.local {
		return "a running weir serve applies the change to the next request"
	}
	return deployed
}

// explain adds a remedy to an error of the table.
func (o *keysOptions) explain(err error) error { return explainRecords(o.table, err) }

// source returns the keys in the table or, with --local, in .weir.
func (o *keysOptions) source(ctx context.Context) (*apikeys.Keys, error) {
	if o.local {
		c, err := checkout.FindKeys()
		return c.Keys(), err
	}
	client, err := openRecords(ctx, o.table)
	if err != nil {
		return nil, err
	}
	return apikeys.New(client, o.table), nil
}

// open returns the keys. Progress and warnings go to progress.
func (o *keysOptions) open(ctx context.Context, progress io.Writer) (*apikeys.Keys, error) {
	keys, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	keys.Progress = func(n int) { fmt.Fprintf(progress, "weir: %d keys read; reading more\n", n) }
	keys.Warn = func(err error) { fmt.Fprintf(progress, "weir: warning: %v\n", err) }
	return keys, nil
}
