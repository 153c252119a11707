package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/local/command"
)

// rotation is a command that replaces a secret of a deployment. The previous secret stays valid until the next rotation.
type rotation struct {
	use, short, long string
	force            string // help of --force
	notLocal         string // why --local is not available; "" if it is
	rotate           func(c *cobra.Command, force bool) error
	inUse            error  // the error of rotate that --force omits
	remedy           string // what else to do then
	done             string
}

func (o *keysOptions) rotation(r rotation) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: r.use, Short: r.short, Long: r.long, Example: "  weir keys " + r.use, Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.local && r.notLocal != "" {
				return command.Usage("--local: not available: %s", r.notLocal)
			}
			switch err := r.rotate(c, force); {
			case errors.Is(err, r.inUse):
				return fmt.Errorf("%w; %s", err, r.remedy)
			case err != nil:
				return o.explain(err)
			case o.json:
				return command.PrintJSON(c.OutOrStdout(), struct{}{})
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), r.done)
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, r.force)
	return c
}

func (o *keysOptions) rotateSecret() *cobra.Command {
	return o.rotation(rotation{
		use: "rotate", short: "Replace the secret that hashes the keys",
		long: "Replace the secret that hashes the keys. Existing keys stay valid until the rotation after this one, because the table keeps the previous secret. " +
			"The next rotation invalidates all keys that are older than this rotation.\n\n" +
			"Before the next rotation, create a new key for each caller (weir keys create --add) and revoke the old key. While old keys remain, a rotation needs --force. Functions use a new secret within about a minute.",
		force: "rotate although this invalidates the keys from before the last rotation",
		rotate: func(c *cobra.Command, force bool) error {
			keys, err := o.open(c.Context(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			return keys.Rotate(c.Context(), time.Now(), force)
		},
		inUse: apikeys.ErrInUse, remedy: "replace these keys (weir keys create --add) and revoke them, or invalidate them with --force",
		done: "new keys use a new secret, which functions read within about a minute;\nexisting keys stay valid until the next rotation",
	})
}

func (o *keysOptions) rotateOrigin() *cobra.Command {
	c := o.rotation(rotation{
		use: "rotate-origin", short: "Replace the secret with which a distribution or a proxy proves itself",
		long: "Replace the secret with which a distribution or a proxy proves itself. The previous secret stays valid until the next rotation, so no request is lost.\n\n" +
			"After a quarter of an hour, when all functions know the new secret, set at each distribution or proxy what weir keys origin --show prints. " +
			"A rotation fails until two hours after a distribution or a proxy took the last secret. --force rotates all the same: requests with the secret before the previous one are then direct.",
		force:    "rotate although a distribution may still send the previous secret",
		notLocal: "a local run has one secret, which belongs to .weir",
		rotate: func(c *cobra.Command, force bool) error {
			client, err := openRecords(c.Context(), o.table)
			if err != nil {
				return err
			}
			return origin.Rotate(c.Context(), client, o.table, o.namespace, time.Now(), force)
		},
		inUse: origin.ErrInUse, remedy: "run weir keys origin --show, set the secret at each distribution and proxy, and then wait two hours; if every distribution already sends the new secret, add --force",
		done: "both secrets are valid until the next rotation;\nafter a quarter of an hour, set at each distribution or proxy what `weir keys origin --show` prints",
	})
	o.namespaceFlag(c)
	return c
}
