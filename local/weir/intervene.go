package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

const interveneHelp = " CALLER is user:ID, apikey:ID (the id of the key's record) or ip:ADDRESS (an IPv6 network of IPV6_BITS).\n\n" +
	"The command writes one item of the records table (--table, or the variable RECORDS_TABLE), which functions read with their rules: it " +
	"acts within a minute, needs no deployment, and stays when rules are published. Without a table, it writes a file in " +
	"this folder's .weir, and a running weir serve applies it within a second: run the command where weir serve runs."

func blockCommand() *cobra.Command {
	var o interveneOptions
	c := &cobra.Command{
		Use:   "block [CALLER]",
		Short: "Refuse all requests of a caller for some time, or list who is blocked",
		Long: "Refuse all requests of a caller with 403 (429 behind a REST API's authorizer), also exempt ones, until the block ends. " +
			"Without CALLER, list the blocks and the raised limits." + interveneHelp + "\n\n" +
			"With --key-value-store, the distribution also refuses an address or an API key, before the request costs anything. The records " +
			"have only a hash of a key, so the command then needs the key itself.",
		Example: "  weir block ip:203.0.113.7 --for 6h --note 'credential stuffing'\n" +
			"  weir block apikey:acme --key-value-store \"$ARN\" --key-from key.txt",
		Args: atMostOne("CALLER"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return o.list(c)
			}
			return o.put(c, args[0], rules.Intervention{})
		},
	}
	o.addFlags(c)
	o.periodFlags(c)
	o.edgeFlags(c)
	return c
}

func unblockCommand() *cobra.Command {
	var o interveneOptions
	c := &cobra.Command{
		Use: "unblock CALLER", Short: "End a block", Long: "End a block of weir block before its time." + interveneHelp,
		Example: "  weir unblock ip:203.0.113.7", Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error { return o.put(c, args[0], rules.Intervention{}) },
	}
	o.ends = true
	o.addFlags(c)
	o.edgeFlags(c)
	return c
}

func raiseCommand() *cobra.Command {
	var o interveneOptions
	c := &cobra.Command{
		Use:   "raise CALLER LIMIT NUMBER",
		Short: "Set another number of requests for a limit of a caller, for some time",
		Long: "Set the number of requests of the limits of this name that count by the caller, until the time ends. The caller keeps its " +
			"usage. It takes precedence over overrides and the records of API keys. The number 0 ends it." + interveneHelp,
		Example: "  weir raise user:alice search 5000 --for 24h\n  weir raise user:alice search 0",
		Args:    command.Exactly(3),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[2], 10, 64)
			if err != nil || n < 0 {
				return command.Usage("NUMBER: got %q, want a number of requests, or 0 to end what was set", args[2])
			}
			o.ends = n == 0
			return o.put(c, args[0], rules.Intervention{Limit: args[1], Requests: max(n, 1)}) // the number of an ended one has no effect
		},
	}
	o.addFlags(c)
	o.periodFlags(c)
	return c
}

// atMostOne accepts one argument, or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return command.Usage("arguments: got %q, want one %s, or none", args, name)
		}
		return nil
	}
}

// edgeKey returns the key of a block in the distribution's KeyValueStore; nil without a distribution.
var edgeKey func(subject string) string

type interveneOptions struct {
	deployed

	period         time.Duration
	ends           bool // end what is in force
	note           string
	store, keyFrom string // of the distribution
}

func (o *interveneOptions) addFlags(c *cobra.Command) {
	o.flags(c.Flags(), ", or a file in this folder's .weir")
}

func (o *interveneOptions) periodFlags(c *cobra.Command) {
	c.Flags().DurationVar(&o.period, "for", time.Hour, "how long, up to 8784h")
	c.Flags().StringVar(&o.note, "note", "", "why, up to 256 bytes; explain and usage show it")
}

func (o *interveneOptions) edgeFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.store, "key-value-store", os.Getenv("WEIR_KEY_VALUE_STORE"), "the ARN of the distribution's KeyValueStore, which "+
		"the command writes with the program aws; default $WEIR_KEY_VALUE_STORE")
	c.Flags().StringVar(&o.keyFrom, "key-from", "", "with --key-value-store, a file with the API key itself, or - for the standard input")
}

// keeper keeps interventions: in a records table, or in a file of weir serve.
type keeper interface {
	Interventions(context.Context) (*rules.Interventions, error)
	Intervene(ctx context.Context, v *rules.Interventions, after int64) error
}

func (o *interveneOptions) keeper(ctx context.Context) (keeper, error) {
	if o.table != "" {
		return o.versions(ctx)
	}
	at, err := checkout.FindKeys()
	if err != nil {
		return nil, fmt.Errorf("%w; or set --table", err)
	}
	return at, nil
}

// put adds an intervention for a caller, until o.period has passed.
func (o *interveneOptions) put(c *cobra.Command, who string, one rules.Intervention) error {
	ctx, now := c.Context(), time.Now()
	if !o.ends && (o.period < time.Second || o.period > rules.MaxIntervention) {
		return command.Usage("--for: got %s, want 1s to %s", o.period, rules.MaxIntervention)
	}
	if err := o.name(ctx, c.InOrStdin(), who, &one); err != nil {
		return err
	}
	one.Note = o.note
	if !o.ends {
		one.End = now.Add(o.period).Unix()
	}
	k, err := o.keeper(ctx)
	if err != nil {
		return err
	}
	if one.Limit != "" && !o.ends {
		if err := o.checkLimit(ctx, one); err != nil {
			return err
		}
	}
	v, err := o.write(ctx, k, now, one)
	if err != nil {
		return o.explain(err)
	}
	return showInterventions(c, v, now)
}

// name sets the caller of an intervention, and its key in the KeyValueStore.
func (o *interveneOptions) name(ctx context.Context, in io.Reader, text string, one *rules.Intervention) error {
	bits := 64
	if value := os.Getenv("IPV6_BITS"); value != "" {
		bits, _ = strconv.Atoi(value)
	}
	_, who, err := operator.ParseCaller(text, bits)
	if err != nil {
		return usageOrFailure(err)
	}
	one.Kind, _, _ = strings.Cut(text, ":")
	one.Value = who.User + who.APIKey
	if who.IP.IsValid() {
		one.Value = who.IP.String()
		if who.IP.Addr().Is4() {
			one.Value = who.IP.Addr().String()
		}
	}
	if o.store == "" || o.ends {
		return nil
	}
	if edgeKey == nil {
		return command.Usage("--key-value-store: this program is built without a distribution")
	}
	switch one.Kind {
	case "ip":
		if who.IP.Addr().Is6() && who.IP.Bits() != 64 {
			return command.Usage("--key-value-store: the function of the distribution refuses IPv6 networks of 64 bits, got %s (IPV6_BITS)",
				one.Value)
		}
		one.Edge = edgeKey(one.Subject())
	case "apikey":
		if o.keyFrom == "" {
			return command.Usage("--key-from: required with --key-value-store and apikey: a file with the key itself, or -")
		}
		key, err := readDocument(ctx, in, o.keyFrom)
		if err != nil {
			return err
		}
		one.Edge = edgeKey("apikey:" + strings.TrimSpace(string(key)))
	}
	return nil
}

func (o *interveneOptions) checkLimit(ctx context.Context, one rules.Intervention) error {
	r, _, err := o.rules(ctx, "")
	switch {
	case err != nil:
		return fmt.Errorf("rules: %w", err)
	case r == nil:
		return fmt.Errorf("rules: %w", rulestore.ErrNoRules)
	}
	return r.CheckIntervention(one)
}

// write adds an intervention to those that are kept. If another command writes at the same time, it tries again. It changes
// the distribution first: the kept block has the key to delete, so the command can be repeated after an error.
func (o *interveneOptions) write(ctx context.Context, k keeper, now time.Time, one rules.Intervention) (v *rules.Interventions,
	err error) {
	for range 5 {
		var was *rules.Interventions
		was, err = k.Interventions(ctx)
		if err != nil {
			return nil, err
		}
		old := "" // key of the present block in the KeyValueStore
		for _, i := range was.List {
			if i.Kind == one.Kind && i.Value == one.Value && i.Limit == one.Limit && !i.Ended(now) {
				old = i.Edge
			}
		}
		if old != "" && o.store == "" {
			return nil, command.Usage("--key-value-store: required: the distribution has this block")
		}
		v, err = was.Put(now, one)
		if err != nil {
			return nil, err
		}
		err = o.writeEdge(ctx, old, one)
		if err != nil {
			return nil, fmt.Errorf("the distribution: %w; the functions know no change: repeat the command", err)
		}
		err = k.Intervene(ctx, v, was.Version)
		if !errors.Is(err, rulestore.ErrConflict) {
			break
		}
	}
	return v, err
}

// writeEdge writes a block to the KeyValueStore, and deletes the key old of the block that it replaces or ends.
func (o *interveneOptions) writeEdge(ctx context.Context, old string, one rules.Intervention) error {
	if one.Edge != "" {
		if err := o.changeEdge(ctx, "put-key", "--key", one.Edge, "--value", strconv.FormatInt(one.End, 10)); err != nil {
			return err
		}
	}
	if old == "" || old == one.Edge {
		return nil
	}
	err := o.changeEdge(ctx, "delete-key", "--key", old)
	if err != nil && strings.Contains(err.Error(), "ResourceNotFound") {
		return nil
	}
	return err
}

func (o *interveneOptions) changeEdge(ctx context.Context, change ...string) (err error) {
	for range 5 { // another command can change the store between the two calls
		var tag string
		tag, err = o.aws(ctx, "describe-key-value-store", "--query", "ETag", "--output", "text")
		if err == nil {
			_, err = o.aws(ctx, append(change, "--if-match", tag)...)
		}
		if err == nil || !strings.Contains(err.Error(), "Conflict") {
			return err
		}
	}
	return err
}

func (o *interveneOptions) aws(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"cloudfront-keyvaluestore", args[0], "--kvs-arn", o.store}, args[1:]...)
	out, err := exec.CommandContext(ctx, "aws", args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("aws %s: %s", args[1], strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

func (o *interveneOptions) list(c *cobra.Command) error {
	k, err := o.keeper(c.Context())
	if err != nil {
		return err
	}
	v, err := k.Interventions(c.Context())
	if err != nil {
		return o.explain(err)
	}
	return showInterventions(c, v, time.Now())
}

// showInterventions prints the interventions that have not ended.
func showInterventions(c *cobra.Command, v *rules.Interventions, now time.Time) error {
	list := []rules.Intervention{}
	rows := [][]string{{"CALLER", "LIMIT", "REQUESTS", "UNTIL", "NOTE"}}
	for _, i := range v.List {
		if i.Ended(now) {
			continue
		}
		limit, requests := "(blocked)", "0"
		if i.Limit != "" {
			limit, requests = i.Limit, strconv.FormatInt(i.Requests, 10)
		}
		list = append(list, i)
		rows = append(rows, []string{printable(i.Subject()), limit, requests, time.Unix(i.End, 0).UTC().Format(time.RFC3339),
			printable(i.Note)})
	}
	return show(c, list, func(p *printer) {
		if len(list) == 0 {
			p.line("nobody is blocked, and no limit is raised")
			return
		}
		p.table(rows...)
	})
}

// interventions prints what operators decided about a caller.
func (p *printer) interventions(list []rules.Intervention) {
	for _, i := range list {
		p.line("%s %s", p.Bad("operator"), printable(i.String()))
	}
}
