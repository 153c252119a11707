package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

func originCommand(o *keysOptions) *cobra.Command {
	var create, show bool
	c := &cobra.Command{
		Use:   "origin",
		Short: "Show the age of the secret with which a distribution or a proxy proves itself",
		Long: "Show the age of the secret with which a distribution or a proxy proves itself, in the field Weir-Origin-Secret. The deployment of a distribution of Weir creates the secret. " +
			"For another distribution or a proxy, create it with --create, print it with --show, and set it there as a field that replaces what the client sent.",
		Example: "  weir keys origin\n  weir keys origin --create --show",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return o.origin(c.Context(), c.OutOrStdout(), time.Now(), create, show)
		},
	}
	c.Flags().BoolVar(&create, "create", false, "create the secret if there is none")
	c.Flags().BoolVar(&show, "show", false, "print the secret that a distribution must send, and record that one has it")
	o.namespaceFlag(c)
	return c
}

// namespaceFlag adds the flag --namespace to a command for the secret of a distribution.
func (o *keysOptions) namespaceFlag(c *cobra.Command) {
	c.Flags().StringVar(&o.namespace, "namespace", os.Getenv("NAMESPACE"), "the namespace of the deployment, such as its stage; default $NAMESPACE")
	c.PreRunE = func(*cobra.Command, []string) error {
		if !o.local && o.namespace == "" {
			return command.Usage("--namespace: missing (or set NAMESPACE); each deployment has its own secret")
		}
		return nil
	}
}

// originState is the state of the secrets of a distribution.
type originState struct {
	Rotated *time.Time `json:"rotated,omitempty"` // the last rotation
	// SentFrom is when distributions may send the new secret.
	SentFrom *time.Time `json:"sentFrom,omitempty"`
	Secret   string     `json:"secret,omitempty"` // the one that a distribution must send
}

func (o *keysOptions) origin(ctx context.Context, out io.Writer, now time.Time, create, show bool) error {
	s, err := o.originSecrets(ctx, create)
	if err != nil {
		return err
	}
	var state originState
	if at := s.Rotated(); !at.IsZero() {
		free := s.Settled()
		state.Rotated, state.SentFrom = &at, &free
	}
	if show {
		if state.Secret, err = o.takeOrigin(ctx, s, now); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		return command.PrintJSON(out, state)
	case show:
		fmt.Fprintln(out, state.Secret)
	case state.Rotated == nil:
		fmt.Fprintln(out, "one secret, never rotated")
	default:
		fmt.Fprintf(out, "two secrets, rotated %s, %s ago\n", state.Rotated.UTC().Format(time.RFC3339), now.Sub(*state.Rotated).Round(time.Minute))
	}
	if at := state.SentFrom; at != nil && now.Before(*at) && !show {
		fmt.Fprintf(out, "distributions send the previous one; deploy the new one at %s or later\n", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// originSecrets returns the secrets of the table or, with --local, of weir serve.
func (o *keysOptions) originSecrets(ctx context.Context, create bool) (origin.Secrets, error) {
	if o.local {
		c, err := checkout.FindKeys()
		if err != nil {
			return origin.Secrets{}, err
		}
		key, err := c.SubjectKey()
		return origin.Derive(key), err
	}
	client, err := openRecords(ctx, o.table)
	if err != nil {
		return origin.Secrets{}, err
	}
	if create {
		if err := origin.Create(ctx, client, o.table, o.namespace); err != nil {
			return origin.Secrets{}, o.explain(err)
		}
	}
	s, err := origin.Read(ctx, client, o.table, o.namespace)
	return s, o.explain(err)
}

// takeOrigin returns the secret that a distribution must send. In the table, it records that one has it.
func (o *keysOptions) takeOrigin(ctx context.Context, s origin.Secrets, now time.Time) (string, error) {
	if o.local {
		return s.Sent(now), nil
	}
	client, err := openRecords(ctx, o.table)
	if err != nil {
		return "", err
	}
	secret, err := origin.Take(ctx, client, o.table, o.namespace, now)
	return secret, o.explain(err)
}
