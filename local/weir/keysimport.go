package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/command"
)

func importKeysCommand(o *keysOptions) *cobra.Command {
	var l limitFlags // only that of the rules
	var tier string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import API keys that another system created",
		Long: "Import API keys that another system created, so that customers keep their keys. FILE may be -, the standard input. Each line " +
			"is a JSON object with the members key or sha256 (64 hexadecimal digits), id, and optionally tier and owner. " +
			"A key has 16 to 256 visible characters without a comma.\n\n" +
			"Functions accept such keys with FOREIGN_API_KEYS=accept (the setting foreignApiKeys), and reject other keys with 401; weir serve " +
			"always accepts them. " +
			"The command writes nothing if a line has a mistake, or if a key can be guessed. It leaves out keys " +
			"that are in the table, so it can be repeated. A key for an id that has one is added to it. It does not print keys.",
		Example: "  weir keys import keys.jsonl\n  weir keys import - --tier free < keys.jsonl",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readDocument(c.Context(), c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			list, err := parseImport(text)
			if err == nil {
				err = checkImport(c, o, &l, list, tier)
			}
			if err != nil {
				return fmt.Errorf("%s: nothing was imported: %w", args[0], err)
			}
			return o.importKeys(c, list, tier)
		},
	}
	c.Flags().StringVar(&tier, "tier", "", "tier of the keys that have none in the file, and whose id has none in the table")
	l.rulesFlag(c)
	return c
}

// importedKey is a line of the file.
type importedKey struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	ID     string `json:"id"`
	Tier   string `json:"tier"`
	Owner  string `json:"owner"`
}

// parseImport parses lines of JSON. Its errors contain no key.
func parseImport(text []byte) (list []apikeys.Imported, _ error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	for {
		var l importedKey
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF) && len(list) == 0:
			return nil, errors.New("got no keys")
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil: // the text of err can contain a part of a key
			return nil, fmt.Errorf("key %d: want a JSON object with the members key or sha256, id, tier and owner, which are strings", len(list)+1)
		}
		list = append(list, apikeys.Imported{Key: apikeys.Key{ID: l.ID, Tier: l.Tier, Owner: l.Owner}, Secret: l.Key, Digest: l.SHA256})
	}
}

// checkImport returns the first mistake.
func checkImport(c *cobra.Command, o *keysOptions, l *limitFlags, list []apikeys.Imported, tier string) error {
	var tiers []string
	for n, key := range list {
		key.Tier = cmp.Or(key.Tier, tier)
		if err := key.Check(); err != nil {
			return fmt.Errorf("key %d: %w", n+1, err)
		}
		tiers = append(tiers, key.Tier)
	}
	return l.check(c, &o.deployed, nil, tiers...)
}

func (o *keysOptions) importKeys(c *cobra.Command, list []apikeys.Imported, tier string) error {
	keys, err := o.keys(c)
	if err != nil {
		return err
	}
	written, failed := keys.Import(c.Context(), time.Now(), list, tier)
	return errors.Join(show(c, append([]apikeys.Key{}, written...), func(p *printer) {
		if failed == nil || len(written) > 0 {
			p.line("imported %s", plural(len(written), "key"))
		}
		if failed != nil {
			return
		}
		if n := len(list) - len(written); n > 0 {
			p.line("%s existed already", plural(n, "key"))
		}
		p.line("%s", o.applied("functions with FOREIGN_API_KEYS=accept use them within ten seconds"))
	}), o.explain(failed))
}
