package boot

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
)

type publisherConfig struct {
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
	logger := slog.New(lambdacontext.NewLogHandler())
	if os.Getenv(contract.VariableJWKS) != "" {
		f, err := openSigningKeys(context.Background(), os.LookupEnv)
		run(logger, err, func() any { return f })
		return
	}
	f, err := openPublisher(context.Background(), os.LookupEnv, time.Now)
	run(logger, err, func() any { return f })
}

func openPublisher(ctx context.Context, lookup func(string) (string, bool), clock func() time.Time) (func(context.Context, cfn.Event) error,
	error) {
	var c publisherConfig
	if err := ReadVariables(&c, lookup); err != nil {
		return nil, err
	}
	patient, err := Config{DynamoDBEndpoint: c.DynamoDBEndpoint, Local: c.Local}.retryingClient(ctx, patientRetryer())
	if err != nil {
		return nil, err
	}
	p := &rulestore.Publisher{API: patient, Clock: clock}
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
	}, nil
}
