// Package kafka sends lines to a topic of Apache Kafka or Amazon MSK. Only the function log links it.
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/log/lines"
)

const (
	// Brokers answer in milliseconds. After this time the client expects no answer.
	answerTimeout = 2 * time.Second
	dialTimeout   = time.Second
	// maxIdle is less than ten minutes, after which brokers close an idle connection.
	maxIdle = time.Minute
)

// Options are the options of a connection to a topic.
type Options struct {
	Brokers []string `env:"KAFKA_BROKERS"` // host:port of some brokers; none: lines go nowhere
	Topic   string   `env:"KAFKA_TOPIC"`   // an existing topic
	TLS     bool     `env:"KAFKA_TLS, default=true"`
	IAM     bool     `env:"KAFKA_IAM"` // log in to Amazon MSK with the credentials of the environment

	// Login returns these credentials. The client calls it for each connection. nil means no login.
	Login func(context.Context) (accessKey, secretKey, sessionToken string, err error)
}

// Open returns a Topic with the options in variables, or nil without KAFKA_BROKERS. It is a lines.Open.
func Open(ctx context.Context, c boot.Config, lookup func(string) (string, bool)) (lines.Sender, error) {
	var o Options
	if err := boot.ReadVariables(&o, lookup); err != nil || len(o.Brokers) == 0 {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.IAM {
		config, err := c.AWSConfig(ctx)
		if err != nil {
			return nil, err
		}
		o.Login = func(ctx context.Context) (accessKey, secretKey, sessionToken string, err error) {
			credentials, err := config.Credentials.Retrieve(ctx)
			return credentials.AccessKeyID, credentials.SecretAccessKey, credentials.SessionToken, err
		}
	}
	return New(o)
}

var (
	validBroker = regexp.MustCompile(`^[^:]+:[0-9]{1,5}$`)
	validTopic  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,249}$`)
)

func (o *Options) check() error {
	var problems []error
	for _, broker := range o.Brokers {
		if !validBroker.MatchString(broker) {
			problems = append(problems, fmt.Errorf("KAFKA_BROKERS: got %q, want host:port", broker))
		}
	}
	if !validTopic.MatchString(o.Topic) {
		problems = append(problems, fmt.Errorf("KAFKA_TOPIC: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", o.Topic))
	}
	if o.IAM && !o.TLS {
		problems = append(problems, errors.New("KAFKA_TLS: got false, want true with KAFKA_IAM; a login by IAM needs TLS"))
	}
	return errors.Join(problems...)
}

// Topic sends lines to a topic. It implements lines.Sender and is safe for concurrent use.
//
// Each line is one message without a key, and all brokers in sync store it before Send returns. Topic opens connections
// when it needs them, and replaces a dead one, for example after Lambda froze the process. A repeated
// send can store a message twice.
type Topic struct{ client *kgo.Client }

// New returns a Topic. It does not connect. The error names the invalid option.
func New(o Options) (*Topic, error) {
	client, err := kgo.NewClient(append(o.Connection(),
		kgo.DefaultProduceTopic(o.Topic),
		// An idempotent producer would need another permission on the cluster.
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(answerTimeout), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyPartitioner()))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Topic{client}, nil
}

// Connection returns the client options for connections to the brokers. A client that reads the topic
// can also use them.
func (o Options) Connection() []kgo.Opt {
	options := []kgo.Opt{
		kgo.ClientID("weir"), kgo.SeedBrokers(o.Brokers...),
		kgo.DialTimeout(dialTimeout), kgo.RequestTimeoutOverhead(answerTimeout), kgo.ConnIdleTimeout(maxIdle),
		kgo.DisableClientMetrics(), // otherwise a broker can request client metrics
	}
	if o.TLS {
		options = append(options, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if o.Login != nil {
		options = append(options, kgo.SASL(o.mechanism()))
	}
	return options
}

func (o Options) mechanism() sasl.Mechanism {
	return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
		accessKey, secretKey, sessionToken, err := o.Login(ctx)
		// The default user agent would contain the host name.
		return aws.Auth{AccessKey: accessKey, SecretKey: secretKey, SessionToken: sessionToken, UserAgent: "weir"}, err
	})
}

// sendTimeout bounds Send. It leaves the function time to fail before Lambda ends it.
const sendTimeout = 20 * time.Second

// Send implements lines.Sender.
func (t *Topic) Send(ctx context.Context, lines [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	records := make([]*kgo.Record, len(lines))
	for i, line := range lines {
		records[i] = &kgo.Record{Value: line}
	}
	if err := t.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		// The error of a send only says that the context ended. A new connection has the cause.
		return fmt.Errorf("kafka: %w", errors.Join(err, t.reach()))
	}
	return nil
}

// reach returns the reason why no broker can be reached.
func (t *Topic) reach() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return t.client.Ping(ctx)
}

// Close closes the connections.
func (t *Topic) Close() { t.client.Close() }
