package sinks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/weir-limits/weir/functions/boot"
)

const (
	// Brokers answer in milliseconds. After this time the sink expects no answer.
	answerTimeout = 2 * time.Second
	dialTimeout   = time.Second
	// grace bounds how long Send waits for a cancelled batch. If that batch is still in flight when
	// the next batch starts, and the topic is unknown, both batches fail.
	grace = 250 * time.Millisecond
	// maxIdle is less than ten minutes, because brokers close connections that were idle for ten
	// minutes.
	maxIdle = time.Minute
	// maxBuffered bounds the events that wait for a hanging broker. It is two batches.
	maxBuffered = 2400
)

// KafkaOptions are the options of a connection to a topic. Brokers and Topic are required.
type KafkaOptions struct {
	Brokers []string // host:port of some brokers
	Topic   string
	TLS     bool
	// Login returns the credentials for the IAM login to Amazon MSK. The sink calls it for each
	// connection. nil means no login.
	Login func(context.Context) (accessKey, secretKey, sessionToken string, err error)
}

// NewKafkaOptions returns the options that c configures.
func NewKafkaOptions(ctx context.Context, c boot.Config) (KafkaOptions, error) {
	o := KafkaOptions{Brokers: c.KafkaBrokers, Topic: c.KafkaTopic, TLS: c.KafkaTLS}
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

// Kafka sends events to a topic. It implements decisionlog.Sink and is safe for concurrent use.
//
// Each event is one message without a key. All events of a batch go to one partition, and consecutive
// batches go to different partitions. The environment and the sequence number in an event define the
// order. The leader of the partition acknowledges a batch. If the leader fails before it has
// replicated a batch, that batch is lost without an error.
//
// It opens connections when it needs them. It replaces a dead connection, for example after
// Lambda froze the process, and sends the unacknowledged messages again. An event may therefore
// arrive twice.
type Kafka struct {
	client *kgo.Client
	broken *connecting
}

// connecting keeps the error of the last failed connection, because the error of a failed send only
// reports a timeout.
type connecting struct {
	mu  sync.Mutex
	err error
}

// OnBrokerConnect implements kgo.HookBrokerConnect. The client calls it after each attempt to connect
// and log in.
func (c *connecting) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		err = fmt.Errorf("connection to %s: %w", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *connecting) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// NewKafka returns a sink. It does not connect. The error names the invalid option.
func NewKafka(o KafkaOptions) (*Kafka, error) {
	broken := &connecting{}
	options := append(o.Connection(), kgo.WithHooks(broken),
		kgo.DefaultProduceTopic(o.Topic),
		// The producer is not idempotent, because kgo cannot cancel the messages in flight of an
		// idempotent producer.
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.ProduceRequestTimeout(answerTimeout),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyPartitioner()),
		kgo.MaxBufferedRecords(maxBuffered),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Kafka{client, broken}, nil
}

// Connection returns the client options for connections to the brokers. A client that reads the topic
// can also use them.
func (o KafkaOptions) Connection() []kgo.Opt {
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

func (o KafkaOptions) mechanism() sasl.Mechanism {
	return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
		accessKey, secretKey, sessionToken, err := o.Login(ctx)
		// The default user agent would contain the host name.
		return aws.Auth{AccessKey: accessKey, SecretKey: secretKey, SessionToken: sessionToken, UserAgent: "weir"}, err
	})
}

// Send implements decisionlog.Sink.
func (s *Kafka) Send(ctx context.Context, batch [][]byte) (lost int, err error) {
	answers := make(chan error, len(batch))
	for _, line := range batch {
		s.client.TryProduce(ctx, &kgo.Record{Value: line}, func(_ *kgo.Record, err error) { answers <- err })
	}
	ended, late := ctx.Done(), (<-chan time.Time)(nil)
	for left := len(batch); left > 0; {
		select {
		case failed := <-answers:
			left--
			if failed != nil {
				lost++
				err = failed
			}
		case <-ended: // ctx has ended: the client cancels the messages that are not in flight, and sends their errors to answers
			ended, late = nil, time.After(grace)
		case <-late: // messages without an answer count as lost, although the broker may still store them
			return lost + left, errors.Join(err, context.Cause(ctx), s.broken.failure())
		}
	}
	if err != nil {
		err = errors.Join(err, s.broken.failure())
	}
	return lost, err
}

// Close closes the connections.
func (s *Kafka) Close() { s.client.Close() }
