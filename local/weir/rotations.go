package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/command"
)

func (o *keysOptions) rotateSecret() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rotate", Short: "Replace the secret that hashes the keys",
		Long: "Replace the secret that hashes the keys. Existing keys stay valid until the rotation after this one, because the table keeps " +
			"the previous secret. " +
			"The next rotation invalidates all keys that are older than this rotation.\n\n" +
			"Before the next rotation, create a new key for each caller (weir keys create --add) and revoke the old key. While old keys remain, " +
			"a rotation needs --force. Functions use a new secret within about a minute.",
		Example: "  weir keys rotate", Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := o.open(c.Context(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			switch err := keys.Rotate(c.Context(), time.Now(), force); {
			case errors.Is(err, apikeys.ErrInUse):
				return fmt.Errorf("%w; replace these keys (weir keys create --add) and revoke them, or invalidate them with --force", err)
			case err != nil:
				return o.explain(err)
			case o.json:
				return command.PrintJSON(c.OutOrStdout(), struct{}{})
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "new keys use a new secret, which functions read within about a minute;\nexisting keys stay "+
				"valid until the next rotation")
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "rotate although this invalidates the keys from before the last rotation")
	return c
}
