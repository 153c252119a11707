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
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/rulestore"
)

type publisherConfig struct {
	DynamoDBEndpoint string `env:"DYNAMODB_ENDPOINT"`
	Local            bool   `env:"WEIR_LOCAL"`
	EdgeList         string `env:"EDGE_LIST"`
}

// publishTimeout bounds a publication. It leaves time to answer CloudFormation before the timeout of the
// function.
const publishTimeout = 45 * time.Second

// publishAttempts is the number of attempts to write the document. A new permission takes some seconds to
// act, and AWS denies access until then.
const publishAttempts = 10

func patientRetryer() aws.Retryer {
	return retry.AddWithErrorCodes(retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = publishAttempts }), "AccessDeniedException")
}

// StartDeploy runs a function until Lambda ends the process. When CloudFormation invokes it, the function publishes the
// rules document of a stack, and ends entries of older rules in the list of its distributions. Or it returns their secret.
// With the variable JWKS, it copies the issuer's keys from that URL into RECORDS_TABLE instead.
func StartDeploy(clients Clients) {
	logger := slog.New(lambdacontext.NewLogHandler())
	if os.Getenv(contract.VariableJWKS) != "" {
		f, err := openSigningKeys(context.Background(), os.LookupEnv)
		run(logger, err, func() any { return f })
		return
	}
	f, err := openPublisher(context.Background(), os.LookupEnv, clients, logger, time.Now)
	run(logger, err, func() any { return f })
}

func openPublisher(ctx context.Context, lookup func(string) (string, bool), clients Clients, logger *slog.Logger, clock func() time.Time) (func(context.Context, cfn.Event) error, error) {
	var c publisherConfig
	if err := ReadVariables(&c, lookup); err != nil {
		return nil, err
	}
	patient, err := Config{DynamoDBEndpoint: c.DynamoDBEndpoint, Local: c.Local}.retryingClient(ctx, patientRetryer())
	if err != nil {
		return nil, err
	}
	p := &rulestore.Publisher{API: patient, Clock: clock}
	if p.Published, err = c.retire(ctx, clients, logger); err != nil {
		return nil, err
	}
	answer := cfn.LambdaWrap(func(ctx context.Context, e cfn.Event) (string, map[string]any, error) {
		ctx, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		return p.Publish(ctx, e)
	})
	return func(ctx context.Context, e cfn.Event) error {
		var err error
		if _, ok := e.ResourceProperties[contract.PropertyRotation]; ok {
			err = answerSecret(ctx, patient, e, clock())
		} else {
			_, err = answer(ctx, e)
		}
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, which contains a signature
		}
		return err
	}, nil
}

// retire returns a function that ends the entries of rules before a version in the list; nil without a list. Its failure
// does not make a deployment fail: entries end by themselves.
func (c publisherConfig) retire(ctx context.Context, clients Clients, logger *slog.Logger) (func(context.Context, int64), error) {
	if open := clients.List; open != nil {
		clients.List = func(config aws.Config, arn string) edge.Store {
			config.Retryer = patientRetryer
			return open(config, arn)
		}
	}
	list, err := Config{EdgeList: c.EdgeList, Clients: clients}.OpenList(ctx)
	if list == nil || err != nil {
		return nil, err
	}
	return func(ctx context.Context, version int64) {
		if err := edge.Retire(ctx, list, version); err != nil {
			logger.Error("the rules are published, but the distribution can refuse callers by older rules until their waits end", slog.Any("err", err))
		}
	}, nil
}

// answerSecret answers CloudFormation with the secret that distributions send. cfn.LambdaWrap cannot hide an attribute.
// A deletion keeps the secret, because functions outside the stack may use it.
func answerSecret(ctx context.Context, api records.Writer, e cfn.Event, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	r := cfn.NewResponse(&e)
	property := func(name string) string {
		s, _ := e.ResourceProperties[name].(string)
		return s
	}
	namespace := property(contract.PropertyNamespace)
	r.Status, r.PhysicalResourceID, r.NoEcho = cfn.StatusSuccess, contract.OriginSecretsKey(namespace), true
	if e.RequestType != cfn.RequestDelete {
		secret, err := origin.Deploy(ctx, api, property(contract.PropertyTable), namespace, property(contract.PropertyRotation), now)
		if err != nil {
			r.Status, r.Reason = cfn.StatusFailed, err.Error()
		} else {
			r.Data = map[string]any{contract.AttributeOriginSecret: secret}
		}
	}
	return r.Send()
}
