package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func hashCommand() *cobra.Command {
	var o hashOptions
	c := &cobra.Command{
		Use:   "hash SUBJECT",
		Short: "Print the hash that replaces a caller in logs, metrics and events",
		Long: "Print the hash that replaces a caller in logs, metrics and events. The hash uses the key of this checkout (make run) or, with --table, the key in the records table of a deployment. " +
			"If there is no key, the command creates one. Environments that start later use it." + subjectHelp,
		Example: "  weir hash user:alice\n" +
			"  weir hash ip:203.0.113.7 --table Weir-prod-Records --namespace prod",
		Args:              command.Exactly(1),
		ValidArgsFunction: completeSubject,
		RunE: func(c *cobra.Command, args []string) error {
			hash, err := o.hash(c, args[0])
			if err != nil {
				return err
			}
			if o.json {
				return command.PrintJSON(c.OutOrStdout(), hash)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), hash.Hash)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.table, "table", os.Getenv("RECORDS_TABLE"), "the records table of a deployment; default $RECORDS_TABLE; without a table, the key of this checkout is used")
	f.StringVar(&o.namespace, "namespace", os.Getenv("NAMESPACE"), "the namespace of the deployment, such as its stage; default $NAMESPACE; without --table, the default is dev")
	f.IntVar(&o.ipv6Bits, "ipv6-bits", 64, "the prefix length of the network that counts as one IPv6 caller: IPV6_BITS of the functions")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return c
}

type hashOptions struct {
	table, namespace string
	ipv6Bits         int
	json             bool
}

type madeHash struct {
	Subject   string `json:"subject"`
	Namespace string `json:"namespace"`
	Hash      string `json:"hash"`
}

// localNamespace is the namespace in the templates of infra/golden, which weir serve runs.
const localNamespace = "dev"

func (o *hashOptions) hash(c *cobra.Command, text string) (madeHash, error) {
	if o.ipv6Bits < 1 || o.ipv6Bits > 128 {
		return madeHash{}, command.Usage("--ipv6-bits: got %d, want 1 to 128", o.ipv6Bits)
	}
	subject, err := operator.ParseSubject(text, o.ipv6Bits)
	if err != nil {
		return madeHash{}, usageOrFailure(err)
	}
	if o.namespace == "" {
		if o.table != "" {
			return madeHash{}, command.Usage("--namespace: required with --table: the namespace of the deployment, usually its stage")
		}
		o.namespace = localNamespace
	}
	key, err := o.key(c)
	if err != nil {
		return madeHash{}, err
	}
	return madeHash{subject.String(), o.namespace, telemetry.NewSubjectHash(o.namespace, key)(subject)}, nil
}

// key returns the secret for hashes: from the records table of a deployment or, without --table,
// from this checkout.
func (o *hashOptions) key(cmd *cobra.Command) ([]byte, error) {
	if o.table == "" {
		c, err := checkout.FindKeys()
		if err != nil {
			return nil, err
		}
		return c.SubjectKey()
	}
	client, err := openRecords(cmd.Context(), o.table)
	if err != nil {
		return nil, err
	}
	key, made, err := records.SubjectKey(cmd.Context(), client, o.table)
	if made {
		fmt.Fprintln(cmd.ErrOrStderr(), "created the missing key; environments that start from now on use it")
	}
	return key, explainRecords(o.table, err)
}
