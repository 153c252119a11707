package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/loopback"
	"github.com/weir-limits/weir/local/operator"
)

// operating answers explain, usage and reset. It is an operator.Operator or the client of a running
// gateway.
type operating interface {
	Explain(context.Context, operator.Question) (operator.Explanation, error)
	Usage(ctx context.Context, subject string) (operator.Usage, error)
	Reset(ctx context.Context, subject string) (operator.Usage, error)
}

// target has the flags of explain, usage and reset that select what to query: the gateway of make
// run, or the store of a deployment.
type target struct {
	url, store, namespace, rules, recordsTable string
	region                                     string // of several that share limits
}

const targetHelp = "\n\nThe command queries the gateway of make run (--url, or the variable WEIR_URL) or, with --store, a deployed " +
	"table or cache. With --store, it also reads the variables of the functions (RECORDS_TABLE, RULES_FROM, NAMESPACE, REGIONS, BASE_PATH) " +
	"and the AWS configuration (AWS_REGION, AWS_PROFILE). It then needs the deployed rules (--rules or --records-table) to " +
	"interpret the state, and prints their source."

func (t *target) flags(c *cobra.Command) {
	f := c.Flags()
	gatewayFlag(f, &t.url)
	f.StringVar(&t.store, "store", "", "query the store of a deployment instead: "+storeFlag)
	f.StringVar(&t.namespace, "namespace", "", "with --store, the namespace of the deployment, such as its stage; default $NAMESPACE")
	f.StringVar(&t.rules, "rules", "", "with --store, the rules document; default functions/rules.json without a records table")
	f.StringVar(&t.recordsTable, "records-table", "", "with --store, the records table that holds the rules: the rules that the deployment "+
		"of the namespace published, else the rules of weir rules publish; default $RECORDS_TABLE without --rules")
	f.StringVar(&t.region, "region", "", "with a store in DynamoDB and the variable REGIONS, the only region to query; default: all of them")
	addJSON(f)
}

const storeFlag = "its URL, such as dynamodb://TABLE or redis://HOST:6379; or dynamodb or redis, if the variable STORE has the URL (so " +
	"that other users of this machine cannot read a password)"

// load reads the configuration of the functions. The URL of the store is --store, or is in STORE, and --store is its scheme.
func (t *target) load() (boot.Config, error) {
	c, err := clients.Load(t.lookup)
	scheme, _, _ := strings.Cut(c.Store, "://")
	if t.store != c.Store && t.store != scheme && (t.store != "redis" || scheme != "rediss") {
		return c, command.Usage("--store: got %.20q, want a URL such as dynamodb://TABLE or redis://HOST:6379, or dynamodb or redis if the "+
			"variable STORE has the URL; for the memory of a gateway, use --url", t.store)
	}
	return c, command.AsUsage(err)
}

const defaultGateway = "http://127.0.0.1:8080"

func gatewayFlag(f *pflag.FlagSet, url *string) {
	f.StringVar(url, "url", cmp.Or(os.Getenv("WEIR_URL"), defaultGateway), "the gateway on this machine; default $WEIR_URL")
}

// open returns what the flags select, and a function that closes it.
func (t *target) open(ctx context.Context, c *cobra.Command) (operating, func() error, error) {
	none := func() error { return nil }
	if t.store == "" {
		for _, name := range []string{"namespace", "rules", "records-table"} {
			if c.Flags().Changed(name) {
				return nil, none, command.Usage("--%s: requires --store; the gateway at %s ignores this flag", name, t.url)
			}
		}
		client, err := operator.NewGateway(t.url)
		if err != nil {
			return nil, none, command.AsUsage(err)
		}
		return client, none, nil
	}
	switch {
	case t.rules != "" && t.recordsTable != "":
		return nil, none, command.Usage("--rules and --records-table: got both, want the one from which the functions read their rules")
	case c.Flags().Changed("url"):
		return nil, none, command.Usage("--url and --store: got both, want one of them")
	}
	if t.rules == "" && t.recordsTable == "" {
		t.recordsTable = os.Getenv("RECORDS_TABLE")
	}
	return t.openStore(ctx)
}

func (t *target) openStore(ctx context.Context) (operating, func() error, error) {
	none := func() error { return nil }
	config, err := t.config()
	if err != nil {
		return nil, none, command.AsUsage(err)
	}
	source := "the file " + t.rules
	if config.Table() != "" || t.recordsTable != "" {
		client, err := config.DynamoDBClient(ctx)
		if err == nil {
			err = hasCredentials(ctx, client)
		}
		if err == nil && t.recordsTable != "" {
			source, err = t.source(ctx, client, &config)
		}
		if err != nil {
			return nil, none, err
		}
	}
	store, closeStore, err := config.OpenStore(ctx)
	if err != nil {
		return nil, none, err
	}
	o, err := t.operator(ctx, config, store)
	if err == nil {
		o.Source = source
	}
	return o, closeStore, err
}

// source describes where the rules in the records table come from. If functions use those of their deployment, config reads
// these.
func (t *target) source(ctx context.Context, client *dynamodb.Client, config *boot.Config) (string, error) {
	of := deployed{t.recordsTable, config.Namespace}
	_, _, err := of.own(ctx, rulestore.New(client, t.recordsTable))
	if errors.Is(err, rulestore.ErrNoRules) {
		return "those published to table " + t.recordsTable, nil
	} else if err != nil {
		return "", fmt.Errorf("--records-table: %w", err)
	}
	config.RulesFrom = contract.RulesDeployment
	return fmt.Sprintf("the deployment of namespace %s (table %s; RULES_FROM=table selects published rules)", config.Namespace,
		t.recordsTable), nil
}

// config returns the configuration of the deployment's functions.
func (t *target) config() (boot.Config, error) {
	if t.rules == "" && t.recordsTable == "" {
		checkout, err := checkout.Find()
		if err != nil {
			return boot.Config{}, errors.New("--records-table: required outside a checkout of Weir, or --rules: the rules of the deployment")
		}
		t.rules = checkout.Path("functions", "rules.json")
	}
	if name, _ := t.lookup("NAMESPACE"); name == "" {
		return boot.Config{}, errors.New("--namespace: required: the namespace of the deployment, usually its stage (or set NAMESPACE)")
	}
	return t.load()
}

// builtIn is the version of a document that is not published. Published versions are Unix seconds
// and therefore higher. Commands that read a records table must not use an unpublished document.
const builtIn = 1

func (t *target) operator(ctx context.Context, config boot.Config, store limiter.Store) (*operator.Operator, error) {
	var hash func(limiter.Subject) string
	options := boot.Options{Logger: slog.New(slog.DiscardHandler)}
	if t.recordsTable != "" { // which has the key of the hashes
		options.Metrics, options.Hash = io.Discard, func(h telemetry.SubjectHash) telemetry.SubjectHash { hash = h; return h }
	}
	e, err := config.Environment(ctx, store, options)
	if err != nil {
		return nil, err
	}
	// Load the published rules first. Otherwise, the first question would use the document of the
	// checkout.
	if t.recordsTable != "" {
		if err := e.Rules.Refresh(ctx, time.Now()); err != nil {
			return nil, fmt.Errorf("--records-table: %w", err)
		}
		if e.Rules.Current().Version() == builtIn {
			return nil, fmt.Errorf("--records-table: %w", rulestore.ErrNoRules)
		}
	}
	if err := config.Probe(ctx, store); err != nil {
		return nil, err
	}
	o := &operator.Operator{
		Limiters: []*limiter.Limiter{e.Limiter}, Rules: e.Rules.At,
		Clock: time.Now, IPv6Bits: config.IPv6Bits, BasePaths: config.BasePaths, Identifier: e.Identifier, Viewers: e.Viewers, Hash: hash,
	}
	o.Record, err = config.FindRecord(ctx)
	return o, err
}

// lookup returns a variable of the deployment's functions: from a flag, or else from this process.
func (t *target) lookup(name string) (string, bool) {
	flags := map[string]string{
		"STORE": t.store, "NAMESPACE": t.namespace, "RULES_FILE": t.rules, "RECORDS_TABLE": t.recordsTable, "AWS_REGION": t.region,
		"STORE_TIMEOUT": limiter.DefaultTimeout.String(), // more time than in the functions, which run near the store
	}
	if value := flags[name]; value != "" && (name != contract.VariableStore || strings.Contains(value, "://")) {
		return value, true
	}
	value, ok := os.LookupEnv(name)
	switch {
	case name == contract.VariableRulesFrom: // the value of this process has no effect with --rules; without, source evaluates it
		if t.recordsTable != "" {
			return contract.RulesTable, true
		}
		return "", false
	case ok:
	case name == "WEIR_LOCAL":
		return strconv.FormatBool(loopback.URL(os.Getenv("DYNAMODB_ENDPOINT"))), true
	case name == "RULES_VERSION" && t.rules == "":
		return strconv.Itoa(builtIn), true
	// A document without a version gets the modification time of its file as version, as in make
	// run.
	case name == "RULES_VERSION":
		if info, err := os.Stat(t.rules); err == nil {
			return strconv.FormatInt(max(0, info.ModTime().Unix()), 10), true
		}
	}
	return value, ok
}

// act is what a command does in one region: it returns its answer, and a function that prints it as text.
type act func(operating) (answer any, text func(*printer), err error)

// each acts in each region of the deployment (REGIONS), or in that of --region. Without REGIONS, it acts on what the flags
// select. A region that fails is named, and the others are asked too.
func (t *target) each(c *cobra.Command, do act) error {
	regions, err := t.regions()
	if err != nil {
		return err
	}
	if len(regions) == 0 {
		return usageOrFailure(t.one(c, do))
	}
	var failed []error
	for _, t.region = range regions {
		err := usageOrFailure(t.one(c, do))
		if _, mistaken := errors.AsType[command.UsageError](err); mistaken { // the same in every region
			return err
		} else if err != nil {
			failed = append(failed, fmt.Errorf("region %s: %w", t.region, err))
		}
	}
	return errors.Join(failed...)
}

// regions returns the regions in which a command acts; none without REGIONS.
func (t *target) regions() ([]string, error) {
	list := os.Getenv(contract.VariableRegions)
	url, _ := t.lookup(contract.VariableStore)
	inTable := t.store != "" && strings.HasPrefix(url, contract.StoreDynamoDB)
	switch {
	case t.region != "" && (list == "" || !inTable):
		return nil, command.Usage("--region: requires a store in DynamoDB and the variable %s, the regions of the deployment; one region alone "+
			"is that of AWS_REGION", contract.VariableRegions)
	case list == "" || !inTable:
		return nil, nil
	case t.region != "":
		return []string{t.region}, nil
	}
	return contract.RegionNames(strings.Split(strings.ReplaceAll(list, " ", ""), ",")), nil
}

// one acts on what the flags select.
func (t *target) one(c *cobra.Command, do act) error {
	to, closeIt, err := t.open(c.Context(), c)
	defer func() { _ = closeIt() }()
	if err != nil {
		return err
	}
	answer, text, err := do(to)
	if err != nil {
		return err
	}
	if t.region == "" {
		return show(c, answer, text)
	}
	return show(c, map[string]any{"region": t.region, "answer": answer}, func(p *printer) {
		p.line("%s %s", p.Bold("region"), t.region)
		text(p)
	})
}

// usageOrFailure returns a usage error if the user's question was wrong, and err otherwise.
func usageOrFailure(err error) error {
	if _, mistaken := errors.AsType[*operator.MistakeError](err); mistaken {
		return command.AsUsage(err)
	}
	return err
}
