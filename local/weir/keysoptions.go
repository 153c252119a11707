package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

// keysOptions are the flags of weir keys.
type keysOptions struct {
	deployed

	local bool
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

// keys returns the keys in the table or, with --local, in .weir. Progress and warnings go to the standard error.
func (o *keysOptions) keys(c *cobra.Command) (keys *apikeys.Keys, err error) {
	if o.local {
		at, err := checkout.FindKeys()
		if err != nil {
			return nil, err
		}
		keys = at.Keys()
	} else {
		client, err := o.client(c.Context())
		if err != nil {
			return nil, err
		}
		keys = apikeys.New(client, o.table)
	}
	keys.Progress = func(n int) { fmt.Fprintf(c.ErrOrStderr(), "weir: %d keys read; reading more\n", n) }
	keys.Warn = func(err error) { fmt.Fprintf(c.ErrOrStderr(), "weir: warning: %v\n", err) }
	return keys, nil
}
