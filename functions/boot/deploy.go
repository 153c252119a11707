package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/caller"
)

// deployConfig has the variables of the function deploy. With JWKS, it copies the issuer's keys.
type deployConfig struct {
	RecordsTable     string `env:"RECORDS_TABLE"`
	JWKS             string `env:"JWKS"` // the URL of the issuer's keys
	DynamoDBEndpoint string `env:"DYNAMODB_ENDPOINT"`
	Local            bool   `env:"WEIR_LOCAL"`
}

// publishTimeout bounds a publication. It leaves time to answer CloudFormation before the timeout of the
// function.
const publishTimeout = 45 * time.Second

// publishAttempts is the number of attempts to write the document. A new permission takes some seconds to
// act, and AWS denies access until then.
const publishAttempts = 10

func patientRetryer() aws.Retryer {
	return retry.AddWithErrorCodes(retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = publishAttempts }),
		"AccessDeniedException")
}

// StartDeploy runs a function until Lambda ends the process. When CloudFormation invokes it, the function publishes the
// rules document of a stack.
// With the variable JWKS, it copies the issuer's keys from that URL into RECORDS_TABLE instead.
func StartDeploy() {
	Run(slog.New(lambdacontext.NewLogHandler()), func(*slog.Logger) (any, error) {
		return openDeploy(context.Background(), os.LookupEnv, time.Now)
	})
}

// openDeploy returns the function. Its client retries: no request waits for it, and a repeated write changes nothing.
func openDeploy(ctx context.Context, lookup func(string) (string, bool), clock func() time.Time) (any, error) {
	var c deployConfig
	if err := ReadVariables(&c, lookup); err != nil {
		return nil, err
	}
	client, err := Config{DynamoDBEndpoint: c.DynamoDBEndpoint, Local: c.Local}.DynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	patient := dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.Retryer = patientRetryer() })
	if c.JWKS == "" {
		return publishing(&rulestore.Publisher{API: patient, Clock: clock}), nil
	}
	if c.RecordsTable == "" {
		return nil, errors.New("RECORDS_TABLE: required with JWKS")
	}
	fetch, err := caller.FetchFrom(c.JWKS)
	if err != nil {
		return nil, fmt.Errorf("JWKS: %w", err)
	}
	return &records.SigningKeys{API: patient, Table: c.RecordsTable, Fetch: fetch, Clock: clock}, nil
}

// publishing returns the function that publishes for CloudFormation and answers it.
func publishing(p *rulestore.Publisher) func(context.Context, cfn.Event) error {
	answer := cfn.LambdaWrap(func(ctx context.Context, e cfn.Event) (string, map[string]any, error) {
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		return p.Publish(ctx, e)
	})
	return func(ctx context.Context, e cfn.Event) error {
		_, err := answer(ctx, e)
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, which contains a signature
		}
		return err
	}
}
