package boot

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awskinesis "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/sinks/kafka"
	"github.com/weir-limits/weir/functions/sinks/kinesis"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// EventsConfig says where events of decisions go.
type EventsConfig struct {
	// Events is what takes them: kafka or kinesis. Empty: there are none.
	Events string `env:"EVENTS"`
	// Sample is how many allowed requests one event stands for: 100 keeps 1 %, 0 none.
	Sample int `env:"EVENTS_SAMPLE, default=100"`

	// KafkaBrokers are some of the brokers, host:port each; KafkaTopic is a topic that is there.
	KafkaBrokers []string `env:"KAFKA_BROKERS"`
	KafkaTopic   string   `env:"KAFKA_TOPIC"`
	// KafkaTLS says that the brokers are spoken to by TLS.
	KafkaTLS bool `env:"KAFKA_TLS, default=true"`
	// KafkaIAM says that they are Amazon MSK's, where the environment's own credentials log in.
	KafkaIAM bool `env:"KAFKA_IAM"`

	// KinesisStream is the name of a data stream.
	KinesisStream string `env:"KINESIS_STREAM"`
	// KinesisEndpoint is where Kinesis is, if not at AWS.
	KinesisEndpoint string `env:"KINESIS_ENDPOINT"`
}

const maxSample = 1_000_000

var (
	validTopic  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,249}$`)
	validStream = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
)

// checkEvents says what is wrong with the variables of events.
func (c *EventsConfig) checkEvents(check func(ok bool, format string, args ...any)) {
	switch c.Events {
	case "":
		return
	case "kafka":
		check(len(c.KafkaBrokers) > 0, "KAFKA_BROKERS: is missing: such as b-1.example.com:9098,b-2.example.com:9098")
		for _, broker := range c.KafkaBrokers {
			check(isAddress(broker), "KAFKA_BROKERS: got %q, want host:port", broker)
		}
		check(validTopic.MatchString(c.KafkaTopic), "KAFKA_TOPIC: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", c.KafkaTopic)
		check(c.KafkaTLS || !c.KafkaIAM, "KAFKA_TLS: want true with KAFKA_IAM: who logs in by IAM needs TLS")
	case "kinesis":
		check(validStream.MatchString(c.KinesisStream), "KINESIS_STREAM: got %q, want the name of a data stream: 1 to 128 letters, digits, _, . and -", c.KinesisStream)
	default:
		check(false, "EVENTS: got %q, want kafka or kinesis, or nothing for no events", c.Events)
	}
	check(c.Sample >= 0 && c.Sample <= maxSample, "EVENTS_SAMPLE: got %d, want 1 to %d, the requests that one event stands for, or 0 for no event of plain allowed ones", c.Sample, maxSample)
}

// isAddress reports whether s is a host and a port.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// OpenEvents returns what sends events of decisions, nil if there are none, and what ends it.
// It does not connect. hash names callers, and budget is what a request waits for it at most.
func (c Config) OpenEvents(ctx context.Context, recorder *telemetry.Recorder, hash telemetry.SubjectHash, logger *slog.Logger, budget time.Duration) (p *decisionlog.Publisher, closeSink func(), err error) {
	closeSink = func() {}
	var sink decisionlog.Sink
	switch c.Events {
	case "":
		return nil, closeSink, nil
	case "kafka":
		s, err := c.kafkaSink(ctx)
		if err != nil {
			return nil, closeSink, err
		}
		sink, closeSink = s, s.Close
	default:
		client, err := c.KinesisClient(ctx)
		if err != nil {
			return nil, closeSink, err
		}
		sink = kinesis.New(client, c.KinesisStream)
	}
	return decisionlog.New(decisionlog.Options{
		Namespace: c.Namespace, Hash: hash, Sink: sink, OneIn: c.Sample,
		Budget: budget, Dropped: recorder.EventsDropped, Logger: logger,
	}), closeSink, nil
}

func (c Config) kafkaSink(ctx context.Context) (*kafka.Sink, error) {
	o, err := c.KafkaOptions(ctx)
	if err != nil {
		return nil, err
	}
	return kafka.New(o)
}

// KafkaOptions returns how the topic of events is reached.
func (c Config) KafkaOptions(ctx context.Context) (kafka.Options, error) {
	o := kafka.Options{Brokers: c.KafkaBrokers, Topic: c.KafkaTopic, TLS: c.KafkaTLS}
	if !c.KafkaIAM {
		return o, nil
	}
	config, err := c.awsConfig(ctx, dynamoDBVariable, c.DynamoDBEndpoint)
	o.Login = func(ctx context.Context) (accessKey, secretKey, sessionToken string, err error) {
		credentials, err := config.Credentials.Retrieve(ctx)
		return credentials.AccessKeyID, credentials.SecretAccessKey, credentials.SessionToken, err
	}
	return o, err
}

// KinesisClient returns a client that tries a call again, for no request waits: a connection
// that died while Lambda had frozen the process must not cost a batch.
func (c Config) KinesisClient(ctx context.Context) (*awskinesis.Client, error) {
	config, err := c.awsConfig(ctx, kinesisVariable, c.KinesisEndpoint)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, fmt.Errorf("AWS_REGION: is missing: the stream %s is in a region", c.KinesisStream)
	}
	return awskinesis.NewFromConfig(config, func(o *awskinesis.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, time.Second })
		o.Logger = logging.Nop{} // errors are told once, by whoever gets them
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = client.WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = maxIdle })
		}
	}), nil
}
