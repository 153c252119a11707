package sinks

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awskinesis "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks/kafka"
	"github.com/weir-limits/weir/functions/sinks/kinesis"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/resilient"
)

// Open returns the destination that EVENTS selects. It returns nil if EVENTS is empty. It does not
// connect. The caller can close a *kafka.Sink.
func Open(ctx context.Context, c boot.Config) (decisionlog.Sink, error) {
	switch c.Events {
	case "":
		return nil, nil
	case "kafka":
		o, err := KafkaOptions(ctx, c)
		if err != nil {
			return nil, err
		}
		return kafka.New(o)
	}
	client, err := KinesisClient(ctx, c)
	if err != nil {
		return nil, err
	}
	return kinesis.New(client, c.KinesisStream), nil
}

// KafkaOptions returns the options of a connection to the topic of c.
func KafkaOptions(ctx context.Context, c boot.Config) (kafka.Options, error) {
	o := kafka.Options{Brokers: c.KafkaBrokers, Topic: c.KafkaTopic, TLS: c.KafkaTLS}
	if !c.KafkaIAM {
		return o, nil
	}
	config, err := c.AWSConfig(ctx, "DYNAMODB_ENDPOINT", c.DynamoDBEndpoint)
	o.Login = func(ctx context.Context) (accessKey, secretKey, sessionToken string, err error) {
		credentials, err := config.Credentials.Retrieve(ctx)
		return credentials.AccessKeyID, credentials.SecretAccessKey, credentials.SessionToken, err
	}
	return o, err
}

// KinesisClient returns a client for the stream of c. The client retries, because no request waits for
// it. A retry saves a batch if the connection died while the process was frozen. A retry after a lost
// answer would send the batch twice.
func KinesisClient(ctx context.Context, c boot.Config) (*awskinesis.Client, error) {
	config, err := c.AWSConfig(ctx, "KINESIS_ENDPOINT", c.KinesisEndpoint)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, fmt.Errorf("AWS_REGION: required with KINESIS_STREAM: the region of the stream %s", c.KinesisStream)
	}
	return awskinesis.NewFromConfig(config, func(o *awskinesis.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, time.Second })
		o.Logger = logging.Nop{} // the caller logs the error once
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = resilient.HTTPClient{Doer: client.WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = resilient.ConnectionLife })}
		}
	}), nil
}
