package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/loopback"
)

// deployed names a deployment by its records table and its namespace. Without a table, the commands that can do so act on
// the files of weir serve.
type deployed struct{ table, namespace string }

func (d *deployed) flags(f *pflag.FlagSet, without string) {
	f.StringVar(&d.table, "table", os.Getenv(contract.VariableRecordsTable),
		"the records table of the deployment; default $RECORDS_TABLE"+without)
	f.StringVar(&d.namespace, "namespace", os.Getenv(contract.VariableNamespace),
		"the namespace of the deployment, such as its stage, whose rules are in force; default $NAMESPACE")
	addJSON(f)
}

var errNoTable = command.Usage("--table: required: the records table of the deployment (or set RECORDS_TABLE)")

func (d *deployed) client(ctx context.Context) (*dynamodb.Client, error) {
	if d.table == "" {
		return nil, errNoTable
	}
	endpoint := os.Getenv("DYNAMODB_ENDPOINT")
	client, err := boot.Config{DynamoDBEndpoint: endpoint, Local: loopback.URL(endpoint), AWS: clients.AWS}.DynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	if err := hasCredentials(ctx, client); err != nil {
		return nil, err
	}
	// more retries than in functions, because a command has time
	return dynamodb.New(client.Options(), func(c *dynamodb.Options) { c.Retryer = retry.NewStandard() }), nil
}

// hasCredentials returns an error if the AWS configuration has no region or no credentials.
func hasCredentials(ctx context.Context, client *dynamodb.Client) error {
	if client.Options().Region == "" {
		return errors.New("AWS_REGION: required: the region of the deployment (or set AWS_PROFILE to a profile that has one)")
	}
	if _, err := client.Options().Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials; set AWS_PROFILE, or log in: %w", err)
	}
	return nil
}

func (d *deployed) versions(ctx context.Context) (*rulestore.Versions, error) {
	client, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	return rulestore.New(client, d.table), nil
}

// explain adds a remedy to an error of the table.
func (d *deployed) explain(err error) error {
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return fmt.Errorf("--table: no table %q in this account and region; want the records table of the deployment, with AWS_PROFILE and "+
			"AWS_REGION of its stack", d.table)
	}
	if errors.Is(err, rulestore.ErrConflict) {
		return fmt.Errorf("%w; see weir rules history and try again", err)
	}
	return err
}

// rulesFrom returns the source of the rules of the deployment's functions, or "" if it is not given.
func rulesFrom() string { return os.Getenv(contract.VariableRulesFrom) }

// own returns the rules that the deployment itself published. If functions do not read these, because of rulesFrom=table,
// or if there are none, the error wraps rulestore.ErrNoRules.
func (d *deployed) own(ctx context.Context, kept *rulestore.Versions) (rulestore.Version, []byte, error) {
	if d.namespace == "" || rulesFrom() == contract.RulesTable {
		return rulestore.Version{}, nil, rulestore.ErrNoRules
	}
	return kept.Deployed(ctx, d.namespace)
}

// inForce returns the document in force: that of the deployment, or else the published one.
func (d *deployed) inForce(ctx context.Context) (document []byte, from string, err error) {
	kept, err := d.versions(ctx)
	if err != nil {
		return nil, "", err
	}
	v, document, err := d.own(ctx, kept)
	if errors.Is(err, rulestore.ErrNoRules) {
		v, document, err = kept.Get(ctx, 0)
	}
	return document, nameOf(v), d.explain(err)
}

// nameOf returns "version N" or, for the zero Version, "no rules".
func nameOf(v rulestore.Version) string {
	if v.Version == 0 {
		return "no rules"
	}
	return fmt.Sprintf("version %d", v.Version)
}

// rules returns the rules in a file or, without one, those in force, and the name of the document in messages. Without a
// table, the rules of weir serve are in force. If nothing is in force, it returns those of the checkout, or else nil.
func (d *deployed) rules(ctx context.Context, file string) (r *rules.Rules, from string, err error) {
	var document []byte
	from = file
	switch {
	case file != "":
	case d.table == "":
		file = checkout.LocalRules()
		from = file
	default:
		document, from, err = d.inForce(ctx)
		if c, outside := checkout.Find(); errors.Is(err, rulestore.ErrNoRules) && outside == nil {
			file, from = c.Path("functions", "rules.json"), "functions/rules.json (the table has no rules)"
		} else if err != nil && !errors.Is(err, rulestore.ErrNoRules) {
			return nil, "", err
		}
	}
	if file != "" {
		document, err = os.ReadFile(file)
		if err != nil {
			return nil, "", fmt.Errorf("--rules: %w", err)
		}
	}
	if document == nil {
		return nil, "", nil
	}
	r, err = checkout.ParseRules(document)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", from, err)
	}
	return r, from, nil
}
