package kafka

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
)

const (
	// An answer that has not come by then never will: brokers answer in milliseconds.
	answerTimeout = 2 * time.Second
	dialTimeout   = time.Second
	// grace is how long a batch that is given up may take to end: the next one would share its
	// fate while the topic is not known.
	grace = 250 * time.Millisecond
	// maxIdle is less than the ten minutes after which brokers hang up.
	maxIdle = time.Minute
	// maxBuffered is what a broker that hangs can hold on to: two batches.
	maxBuffered = 2400
)

// Options are what [New] is told. Brokers and Topic must be there.
type Options struct {
	Brokers []string // host:port of some
	Topic   string
	TLS     bool
	// Login proves to brokers of Amazon MSK who this is, by IAM; nil: nobody asks. It is called
	// for each connection.
	Login Login
}

// Login returns credentials of AWS.
type Login func(context.Context) (accessKey, secretKey, sessionToken string, err error)

// Sink implements decisionlog.Sink. It is safe for concurrent use.
type Sink struct {
	client *kgo.Client
	broken *connecting
}

// connecting keeps why the last connection could not be made: what is sent fails by its time
// alone.
type connecting struct {
	mu  sync.Mutex
	err error
}

// OnBrokerConnect implements kgo.HookBrokerConnect: a connection is made, and logged in by, or
// is not.
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

// New returns a sink, without connecting. The error says what of the options is wrong.
func New(o Options) (*Sink, error) {
	broken := &connecting{}
	options := append(o.Connection(), kgo.WithHooks(broken),
		kgo.DefaultProduceTopic(o.Topic),
		// Who numbers messages so that none comes twice cannot give up one that is on its way.
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.ProduceRequestTimeout(answerTimeout),
		kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyPartitioner()),
		kgo.MaxBufferedRecords(maxBuffered),
	)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Sink{client, broken}, nil
}

// Connection returns how brokers are reached, for a client that reads the topic too.
func (o Options) Connection() []kgo.Opt {
	options := []kgo.Opt{
		kgo.ClientID("weir"), kgo.SeedBrokers(o.Brokers...),
		kgo.DialTimeout(dialTimeout), kgo.RequestTimeoutOverhead(answerTimeout), kgo.ConnIdleTimeout(maxIdle),
		kgo.DisableClientMetrics(), // which a broker may ask for
	}
	if o.TLS {
		options = append(options, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	if o.Login != nil {
		options = append(options, kgo.SASL(o.Login.mechanism()))
	}
	return options
}

func (l Login) mechanism() sasl.Mechanism {
	return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
		accessKey, secretKey, sessionToken, err := l(ctx)
		// Its own words would name the host.
		return aws.Auth{AccessKey: accessKey, SecretKey: secretKey, SessionToken: sessionToken, UserAgent: "weir"}, err
	})
}

// Send implements decisionlog.Sink.
func (s *Sink) Send(ctx context.Context, batch [][]byte) (lost int, err error) {
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
		case <-ended: // the client gives up what is not on its way, and says so
			ended, late = nil, time.After(grace)
		case <-late: // what is on its way may arrive yet
			return lost + left, errors.Join(err, context.Cause(ctx), s.broken.failure())
		}
	}
	if err != nil {
		err = errors.Join(err, s.broken.failure())
	}
	return lost, err
}

// Close closes the connections.
func (s *Sink) Close() { s.client.Close() }
