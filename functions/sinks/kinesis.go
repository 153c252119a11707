package sinks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/resilient"
)

const (
	maxRecord = 25_000 // maximum size of a record, in bytes; Kinesis bills a record in units of this size
	attempts  = 3
	pause     = 100 * time.Millisecond // pause between attempts
)

// KinesisClient returns a client for the stream of c. The client retries, because no request waits for
// it. A retry saves a batch if the connection died while the process was frozen. A retry after a lost
// answer would send the batch twice.
func KinesisClient(ctx context.Context, c boot.Config) (*kinesis.Client, error) {
	config, err := c.AWSConfig(ctx, "KINESIS_ENDPOINT", c.KinesisEndpoint)
	if err != nil {
		return nil, err
	}
	if config.Region == "" {
		return nil, fmt.Errorf("AWS_REGION: required with KINESIS_STREAM: the region of the stream %s", c.KinesisStream)
	}
	return kinesis.NewFromConfig(config, func(o *kinesis.Options) {
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, time.Second })
		o.Logger = logging.Nop{} // the caller logs the error once
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = resilient.HTTPClient{Doer: client.WithTransportOptions(func(t *http.Transport) { t.IdleConnTimeout = resilient.ConnectionLife })}
		}
	}), nil
}

// stream sends events to a Kinesis data stream.
//
// Kinesis charges for each 25 kB of a record, so a record contains as many events as fit. Each event
// is one line of JSON with a line end, so that Firehose can concatenate records. The sink sends a
// batch in one call. It makes up to two more calls for records that the stream throttled. The client
// repeats a call that gets no answer, so an event may arrive twice.
type stream struct {
	api interface { // a *kinesis.Client
		PutRecords(context.Context, *kinesis.PutRecordsInput, ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
	}
	name string
}

type record struct {
	lines []byte
	n     int
}

// Send implements decisionlog.Sink.
func (s stream) Send(ctx context.Context, batch [][]byte) (lost int, err error) {
	records := pack(batch)
	for try := range attempts {
		if try > 0 && !sleep(ctx, pause) {
			break
		}
		records, err = s.put(ctx, records)
		if len(records) == 0 || ctx.Err() != nil || !errors.Is(err, errRejected) { // the SDK itself retries a failed call
			break
		}
	}
	for _, r := range records {
		lost += r.n
	}
	return lost, err
}

func pack(batch [][]byte) (records []record) {
	for _, line := range batch {
		if n := len(records); n == 0 || len(records[n-1].lines)+len(line) >= maxRecord {
			records = append(records, record{})
		}
		last := &records[len(records)-1]
		last.lines = append(append(last.lines, line...), '\n')
		last.n++
	}
	return records
}

// errRejected means that the stream rejected some records of a call, so that a retry of these can succeed.
var errRejected = errors.New("records rejected")

// put sends records and returns those that the stream rejected.
func (s stream) put(ctx context.Context, records []record) (left []record, err error) {
	entries := make([]types.PutRecordsRequestEntry, len(records))
	for i, r := range records {
		entries[i] = types.PutRecordsRequestEntry{Data: r.lines, PartitionKey: aws.String(rand.Text())} // selects a random shard
	}
	answer, err := s.api.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &s.name, Records: entries})
	if err != nil {
		return records, fmt.Errorf("kinesis: %w", err)
	}
	for i, r := range answer.Records {
		if r.ErrorCode != nil && i < len(records) {
			left = append(left, records[i])
			err = fmt.Errorf("kinesis: %w: %s", errRejected, *r.ErrorCode)
		}
	}
	return left, err
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
