package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks"
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
		begun, err := begunAnew(f)
		if err != nil {
			return err
		}
		if begun {
			rest = nil
		}
	}
}

// begunAnew goes to the start of a file that has become shorter than what was read of it, as
// make run does to its log, and reports whether it has.
func begunAnew(f *os.File) (bool, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return false, nil //nolint:nilerr // what cannot be sought, such as a pipe, does not begin anew
	}
	info, err := f.Stat()
	if err != nil || info.Size() >= at {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return true, err
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
type topic struct {
	client *kgo.Client
	name   string
	// starts are where to read from, and ends where what there is ends.
	starts, ends kadm.ListedOffsets
}

func (o *topOptions) kafka(ctx context.Context) (source, error) {
	if o.topic == "" {
		return nil, usageError{errors.New("--topic: is missing: the topic of the events (or set KAFKA_TOPIC)")}
	}
	connection, err := sinks.KafkaOptions(ctx, boot.Config{EventsConfig: boot.EventsConfig{KafkaBrokers: o.brokers, KafkaTopic: o.topic, KafkaTLS: o.tls || o.iam, KafkaIAM: o.iam}})
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(connection.Connection()...)
	if err != nil {
		return nil, fmt.Errorf("--brokers: %w", err)
	}
	t := topic{client: client, name: o.topic}
	if err := t.find(ctx, o.last); err != nil {
		client.Close()
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("--topic: kafka at %v has no topic %s", o.brokers, o.topic)
		}
		return nil, fmt.Errorf("kafka at %v does not answer (%w): is it running, and are --brokers, --tls and --iam right?", o.brokers, err)
	}
	return t, nil
}

// find asks for the offsets of what there is, of the time last if it is not 0.
func (t *topic) find(ctx context.Context, last time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	admin := kadm.NewClient(t.client)
	if last > 0 {
		t.starts, err = admin.ListOffsetsAfterMilli(ctx, time.Now().Add(-last).UnixMilli(), t.name)
	} else {
		t.starts, err = admin.ListStartOffsets(ctx, t.name)
	}
	if err == nil {
		t.ends, err = admin.ListEndOffsets(ctx, t.name)
	}
	return cmp.Or(err, t.starts.Error(), t.ends.Error())
}

// unread returns the partitions that have something between start and end, by where it ends.
func (t topic) unread() map[int32]int64 {
	all := map[int32]int64{}
	t.ends.Each(func(end kadm.ListedOffset) {
		if start, _ := t.starts.Lookup(t.name, end.Partition); start.Offset < end.Offset {
			all[end.Partition] = end.Offset
		}
	})
	return all
}

func (t topic) read(ctx context.Context, follow bool, lines chan<- []byte) error {
	defer t.client.Close()
	t.client.AddConsumePartitions(t.starts.KOffsets())
	for left := t.unread(); follow || len(left) > 0; {
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
			return nil // the last offsets may be of no record, such as the marks of a transaction
		}
		for records := fetched.RecordIter(); !records.Done(); {
			r := records.Next()
			if end, ok := left[r.Partition]; !follow && (!ok || r.Offset >= end) {
				t.done(left, r.Partition)
				continue
			}
			if !sendLine(ctx, lines, r.Value) {
				return nil
			}
			if r.Offset+1 >= left[r.Partition] && !follow {
				t.done(left, r.Partition)
			}
		}
	}
	return nil
}

// done asks for no more of a partition.
func (t topic) done(left map[int32]int64, partition int32) {
	delete(left, partition)
	t.client.PauseFetchPartitions(map[string][]int32{t.name: {partition}})
}

// stream is a source of the events in a data stream.
type stream struct {
	client *kinesis.Client
	name   string
	from   *kinesis.GetShardIteratorInput
}

func (o *topOptions) kinesis(ctx context.Context) (source, error) {
	endpoint := os.Getenv("KINESIS_ENDPOINT")
	client, err := sinks.KinesisClient(ctx, boot.Config{Local: isLocal(endpoint), EventsConfig: boot.EventsConfig{KinesisStream: o.stream, KinesisEndpoint: endpoint}})
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
