package kinesis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

const (
	maxRecord = 25_000 // maximum size of a record, in bytes; Kinesis bills a record in units of this size
	attempts  = 3
	pause     = 100 * time.Millisecond // pause between attempts
)

// API is the part of the client that a Sink calls. *kinesis.Client implements it.
type API interface {
	PutRecords(context.Context, *kinesis.PutRecordsInput, ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
}

// Sink implements decisionlog.Sink. It is safe for concurrent use if its API is.
type Sink struct {
	api    API
	stream string
}

// New returns a sink for the stream with this name.
func New(api API, stream string) *Sink { return &Sink{api, stream} }

type record struct {
	lines []byte
	n     int
}

// Send implements decisionlog.Sink.
func (s *Sink) Send(ctx context.Context, batch [][]byte) (lost int, err error) {
	records := pack(batch)
	for try := range attempts {
		if try > 0 && !sleep(ctx, pause) {
			break
		}
		records, err = s.put(ctx, records)
		if len(records) == 0 || ctx.Err() != nil || !throttled(err) {
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

var errRejected = errors.New("records rejected")

// throttled reports whether a retry can succeed for a record that the stream rejected with err. (If a
// whole call fails, the SDK retries the call.)
func throttled(err error) bool { return errors.Is(err, errRejected) }

// put sends records and returns those that the stream rejected.
func (s *Sink) put(ctx context.Context, records []record) (left []record, err error) {
	entries := make([]types.PutRecordsRequestEntry, len(records))
	for i, r := range records {
		entries[i] = types.PutRecordsRequestEntry{Data: r.lines, PartitionKey: aws.String(rand.Text())} // selects a random shard
	}
	answer, err := s.api.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &s.stream, Records: entries})
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
