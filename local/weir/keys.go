package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/command"
)

func keysCommand() *cobra.Command {
	c := command.Group(&cobra.Command{
		Use:   "keys",
		Short: "Create, import, list, change and revoke API keys in the records table of a deployment",
		Long: "Create, import, list, change and revoke API keys in the records table of a deployment. The AWS configuration sets the region " +
			"and the credentials (AWS_REGION, AWS_PROFILE and so on). " +
			"With --local, the commands change the keys of weir serve in .weir instead, and a running weir serve applies the change to the next " +
			"request.\n\n" +
			"The table has only hashes of keys. A key is printed once, when it is created.",
		Example: "  weir keys create --id acme --tier paid --table Weir-prod-Records\n  weir keys list\n  weir keys set sample-free --limit " +
			"search=5000/1m --local",
	})
	var o keysOptions
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return o.check(c) }
	o.flags(c.PersistentFlags(), "")
	c.PersistentFlags().BoolVar(&o.local, "local", false, "change the keys of weir serve on this machine, in .weir")
	c.AddCommand(createKeyCommand(&o), importKeysCommand(&o), listKeysCommand(&o), setKeysCommand(&o), revokeKeysCommand(&o))
	return c
}

func createKeyCommand(o *keysOptions) *cobra.Command {
	var k apikeys.Key
	var l limitFlags
	var add bool
	c := &cobra.Command{
		Use:   "create",
		Short: "Create an API key and print it only once",
		Long: "Create an API key and print it only once. Limits count requests by the id of the key.\n\n" +
			"To replace the key of a caller, add a second key to the id (--add). Revoke the old key (weir keys revoke ID --hash HASH) when it is " +
			"no longer used. The caller keeps its usage.\n\n" +
			"If an id had limits of its own and lost all its keys, create it again with --limit or --no-limits." + limitsHelp,
		Example: "  weir keys create --id acme --tier paid --owner 'Acme Inc.'\n  weir keys create --id acme --tier paid --limit " +
			"month=2000000 --anchor 31\n  weir keys create --id acme --add",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			change, err := l.change(c)
			switch {
			case err != nil:
				return err
			case add && change != nil:
				return command.Usage("--add: got limits, but all keys of an id have the same limits; change them with weir keys set")
			case add && k.ID == "":
				return command.Usage("--add: requires --id, the id that gets another key")
			case k.ID == "":
				k.ID = "key-" + strings.ToLower(rand.Text()[:10])
			}
			if err := l.check(c, &o.deployed, change, k.Tier); err != nil {
				return err
			}
			return o.create(c, k, add, change)
		},
	}
	c.Flags().StringVar(&k.ID, "id", "", "id by which limits count: 1 to 64 letters, digits, _, . and - (default: a random id)")
	c.Flags().StringVar(&k.Tier, "tier", "", "tier of the key (default: default_tier of the rules)")
	c.Flags().StringVar(&k.Owner, "owner", "", "the owner of the key; only for information")
	l.flags(c)
	c.Flags().BoolVar(&add, "add", false, "add a key to an id that has one")
	return c
}

func listKeysCommand(o *keysOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the records of the API keys",
		Example: "  weir keys list\n  weir keys list --json",
		Args:    command.Exactly(0),
		RunE:    func(c *cobra.Command, _ []string) error { return o.list(c) },
	}
}

func setKeysCommand(o *keysOptions) *cobra.Command {
	var suspended bool
	var tier string
	var l limitFlags
	c := &cobra.Command{
		Use:   "set ID",
		Short: "Change the limits and the tier of an id, or suspend its API keys",
		Long: "Change all API keys of an id: their limits, their tier, or their suspension. Requests with a suspended key get 401. Functions " +
			"apply the change within about a minute.\n\n" +
			"If the change is invalid, the command writes nothing. The exit status is 1 if the id has no key." + limitsHelp,
		Example: "  weir keys set acme --limit search=5000/1m --limit month=2000000 --anchor 31\n  weir keys set acme --limit search=\n  weir " +
			"keys set acme --no-limits --tier free\n" +
			"  weir keys set acme --suspended\n  weir keys set acme --suspended=false",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			limits, err := l.change(c)
			if err != nil {
				return err
			}
			change := apikeys.Change{Limits: limits}
			if c.Flags().Changed("suspended") {
				change.Suspended = &suspended
			}
			if c.Flags().Changed("tier") {
				change.Tier = &tier
			}
			if change == (apikeys.Change{}) {
				return command.Usage("flags: got none, want --limit, --anchor, --no-limits, --tier or --suspended")
			}
			if err := l.check(c, &o.deployed, limits, tier); err != nil {
				return err
			}
			return o.set(c, args[0], change)
		},
	}
	l.flags(c)
	c.Flags().StringVar(&tier, "tier", "", "tier of the keys; \"\" for default_tier of the rules. In another tier, the caller starts new "+
		"counts, except those of limits with across_tiers")
	c.Flags().BoolVar(&suspended, "suspended", false, "suspend the keys; with =false, lift the suspension")
	return c
}

func revokeKeysCommand(o *keysOptions) *cobra.Command {
	var hash string
	c := &cobra.Command{
		Use:   "revoke [ID]",
		Short: "Revoke the API keys of an id, or one key by its hash",
		Long: "Revoke all API keys of an id or, with --hash, one key. Without an id, --hash finds any item of the table, including an item " +
			"that has no id. The command does not ask for confirmation.\n\n" +
			"The exit status is 1 if no such key exists.",
		Example: "  weir keys revoke acme\n  weir keys revoke --hash 1f2e3d",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && hash == "" || len(args) == 1 && args[0] == "" {
				return command.Usage("arguments: got %q, want an ID, or --hash, or both", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return o.revoke(c, strings.Join(args, ""), hash)
		},
	}
	c.Flags().StringVar(&hash, "hash", "", "only the key with this hash, as weir keys list shows it")
	return c
}

func (o *keysOptions) create(c *cobra.Command, k apikeys.Key, add bool, limits *apikeys.LimitsChange) error {
	keys, err := o.keys(c)
	if err != nil {
		return err
	}
	now := time.Now()
	if limits != nil {
		k.Limits, err = limits.Apply(nil, now)
		if err != nil {
			return err
		}
	}
	key, made, err := keys.Create(c.Context(), now, k, add)
	if errors.Is(err, apikeys.ErrExists) {
		return fmt.Errorf("%w; add a second key with --add, or choose another --id", err)
	} else if err != nil {
		return o.explain(err)
	}
	if !isJSON(c) { // only the key is a result, so that key=$(weir keys create) works
		fmt.Fprintf(c.ErrOrStderr(), "id %s, tier %s%s, hash %s. Save the key: Weir does not store it and cannot show it again. Clients send "+
			"it as x-api-key, or in the header field that API_KEY_HEADER names.\n", made.ID, tierOf(made), limitsOf(made), made.Hash)
	}
	return show(c, struct {
		apikeys.Key
		APIKey string `json:"apiKey"`
	}{made, key}, func(p *printer) { p.line("%s", key) })
}

func tierOf(k apikeys.Key) string { return cmp.Or(k.Tier, "(default)") }

// limitsOf returns the limits of the key's caller, to append to a list. It is empty if the caller
// has none.
func limitsOf(k apikeys.Key) string {
	if text := k.Limits.String(); text != "" {
		return ", limits " + text
	}
	return ""
}

func stateOf(k apikeys.Key) string {
	if k.Suspended {
		return "suspended"
	}
	return "active"
}

func (o *keysOptions) set(c *cobra.Command, id string, change apikeys.Change) error {
	keys, err := o.keys(c)
	if err != nil {
		return err
	}
	changed, failed := keys.Set(c.Context(), time.Now(), id, change)
	return errors.Join(show(c, append([]apikeys.Key{}, changed...), func(p *printer) {
		for _, k := range changed {
			text := stateOf(k)
			if change.Tier != nil {
				text += ", tier " + tierOf(k)
			}
			if change.Limits != nil {
				text += cmp.Or(limitsOf(k), ", no limits of its own")
			}
			p.line("%s, hash %s: %s", k.ID, k.Hash, text)
		}
		switch {
		case failed == nil && len(changed) == 0:
			p.line("%s: no change", id)
		case failed == nil:
			p.line("%s", o.applied("functions apply the change within about a minute"))
		}
	}), o.explain(failed))
}

func (o *keysOptions) list(c *cobra.Command) error {
	keys, err := o.keys(c)
	if err != nil {
		return err
	}
	list, failed := keys.List(c.Context())
	return errors.Join(show(c, list, func(p *printer) {
		if len(list) == 0 {
			if failed == nil {
				p.line("no API keys in %s; create one with weir keys create", cmp.Or(o.table, ".weir"))
			}
			return
		}
		rows := [][]string{{"ID", "TIER", "STATE", "LIMITS", "CREATED", "HASH", "OWNER"}}
		for _, k := range list {
			rows = append(rows, []string{k.ID, tierOf(k), stateOf(k), cmp.Or(k.Limits.String(), "-"), k.Created.Format(time.DateTime), k.Hash,
				k.Owner})
		}
		p.table(rows...)
	}), o.explain(failed))
}

func (o *keysOptions) revoke(c *cobra.Command, id, hash string) error {
	keys, err := o.keys(c)
	if err != nil {
		return err
	}
	revoked, failed := keys.Revoke(c.Context(), id, hash)
	return errors.Join(show(c, append([]apikeys.Key{}, revoked...), func(p *printer) {
		for _, k := range revoked {
			p.line("revoked %s, hash %s, created %s", cmp.Or(k.ID, "(no id)"), k.Hash, k.Created.Format(time.DateTime))
		}
		if failed == nil {
			p.line("%s", o.applied("functions reject revoked keys within about a minute"))
		}
	}), o.explain(failed))
}
