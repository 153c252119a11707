package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limits/weir/functions/boot"
)

// maxLine is the longest line that is read: events have some hundred bytes.
const maxLine = 1 << 20

// quiet is for how long a broker has nothing new at the end.
const quiet = 2 * time.Second

// reachTimeout is how long a broker may take to answer for the first time.
const reachTimeout = 10 * time.Second

// sendLine hands a line on, unless ctx ends.
func sendLine(ctx context.Context, lines chan<- []byte, line []byte) bool {
	select {
	case lines <- line:
		return true
	case <-ctx.Done():
		return false
	}
}

// reader is a source of lines to their end.
type reader struct{ io.Reader }

func (r reader) read(ctx context.Context, _ bool, lines chan<- []byte) error {
	s := bufio.NewScanner(r.Reader)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if !sendLine(ctx, lines, bytes.Clone(s.Bytes())) {
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes: want lines of JSON", maxLine)
	}
	return s.Err()
}

// logFile is a source of lines in a file, which may grow.
type logFile struct{ path string }

func (l logFile) read(ctx context.Context, follow bool, lines chan<- []byte) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var rest []byte // of a line that is being written
	for {
		text, err := io.ReadAll(io.LimitReader(f, maxLine))
		if err != nil {
			return err
		}
		rest = append(rest, text...)
		for line, after, ok := bytes.Cut(rest, []byte("\n")); ok; line, after, ok = bytes.Cut(rest, []byte("\n")) {
			if !sendLine(ctx, lines, bytes.Clone(line)) {
				return nil
			}
			rest = after
		}
		switch {
		case len(rest) > maxLine:
			return fmt.Errorf("%s: a line is longer than %d bytes: want lines of JSON", l.path, maxLine)
		case len(text) > 0:
			continue
		case !follow:
			sendLine(ctx, lines, rest)
			return nil
		case !pause(ctx, renewal):
			return nil
		}
	}
}

// pause reports whether ctx lives as long.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// topic is a source of the events in a topic.
type topic struct{ client *kgo.Client }

func (o *topOptions) kafka(ctx context.Context) (source, error) {
	if o.topic == "" {
		return nil, usageError{errors.New("--topic: is missing: the topic of the events (or set KAFKA_TOPIC)")}
	}
	connection, err := boot.Config{EventsConfig: boot.EventsConfig{KafkaBrokers: o.brokers, KafkaTopic: o.topic, KafkaTLS: o.tls || o.iam, KafkaIAM: o.iam}}.KafkaOptions(ctx)
	if err != nil {
		return nil, err
	}
	from := kgo.NewOffset().AtStart()
	if o.last > 0 {
		from = from.AfterMilli(time.Now().Add(-o.last).UnixMilli())
	}
	client, err := kgo.NewClient(append(connection.Connection(), kgo.ConsumeTopics(o.topic), kgo.ConsumeResetOffset(from))...)
	if err != nil {
		return nil, fmt.Errorf("--brokers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("kafka at %v does not answer (%w): is it running, and are --brokers, --tls and --iam right?", o.brokers, err)
	}
	return topic{client}, nil
}

func (t topic) read(ctx context.Context, follow bool, lines chan<- []byte) error {
	defer t.client.Close()
	for {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if !follow {
			poll, cancel = context.WithTimeout(ctx, quiet)
		}
		fetched := t.client.PollFetches(poll)
		over := poll.Err() != nil
		cancel()
		for _, failed := range fetched.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
				return fmt.Errorf("kafka topic %s: %w", failed.Topic, failed.Err)
			}
		}
		if fetched.NumRecords() == 0 && over {
			return nil
		}
		for records := fetched.RecordIter(); !records.Done(); {
			if !sendLine(ctx, lines, records.Next().Value) {
				return nil
			}
		}
	}
}

// stream is a source of the events in a data stream.
type stream struct {
	client *kinesis.Client
	name   string
	from   *kinesis.GetShardIteratorInput
}

func (o *topOptions) kinesis(ctx context.Context) (source, error) {
	endpoint := os.Getenv("KINESIS_ENDPOINT")
	client, err := boot.Config{Local: isLocal(endpoint), EventsConfig: boot.EventsConfig{KinesisStream: o.stream, KinesisEndpoint: endpoint}}.KinesisClient(ctx)
	if err != nil {
		return nil, err
	}
	from := &kinesis.GetShardIteratorInput{StreamName: &o.stream, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if o.last > 0 {
		from.ShardIteratorType, from.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(time.Now().Add(-o.last))
	}
	return stream{client, o.stream, from}, nil
}

func (s stream) read(ctx context.Context, follow bool, lines chan<- []byte) error {
	shards, err := s.iterators(ctx)
	if err != nil {
		return fmt.Errorf("kinesis stream %s: %w", s.name, err)
	}
	for {
		behind := false
		for i, shard := range shards {
			if shard == nil {
				continue
			}
			out, err := s.client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: shard})
			if err != nil {
				return fmt.Errorf("kinesis stream %s: %w", s.name, err)
			}
			shards[i] = out.NextShardIterator // nil: the shard is closed
			behind = behind || out.NextShardIterator != nil && aws.ToInt64(out.MillisBehindLatest) > 0
			for _, r := range out.Records {
				for line := range bytes.Lines(r.Data) {
					if !sendLine(ctx, lines, line) {
						return nil
					}
				}
			}
		}
		if !behind && !follow || !pause(ctx, renewal/4) { // a shard is asked five times a second at most
			return nil
		}
	}
}

// iterators returns where to read in each shard.
func (s stream) iterators(ctx context.Context) (all []*string, err error) {
	for in := (&kinesis.ListShardsInput{StreamName: &s.name}); ; {
		page, err := s.client.ListShards(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, shard := range page.Shards {
			at := *s.from
			at.ShardId = shard.ShardId
			out, err := s.client.GetShardIterator(ctx, &at)
			if err != nil {
				return nil, err
			}
			all = append(all, out.ShardIterator)
		}
		if page.NextToken == nil {
			return all, nil
		}
		in = &kinesis.ListShardsInput{NextToken: page.NextToken}
	}
}
