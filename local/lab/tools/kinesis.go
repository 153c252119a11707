package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/local/loopback"
)

// stream is a source of the events in a data stream.
type stream struct {
	client *kinesis.Client
	name   string
	from   *kinesis.GetShardIteratorInput
}

func (o *eventsOptions) kinesis(ctx context.Context) (source, error) {
	endpoint := os.Getenv("KINESIS_ENDPOINT")
	client, err := sinks.KinesisClient(ctx, boot.Config{Local: loopback.URL(endpoint), Clients: clients.Default(), EventsConfig: boot.EventsConfig{KinesisStream: o.stream, KinesisEndpoint: endpoint}})
	if err != nil {
		return nil, err
	}
	from := &kinesis.GetShardIteratorInput{StreamName: &o.stream, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if o.last > 0 {
		from.ShardIteratorType, from.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(time.Now().Add(-o.last))
	}
	return stream{client, o.stream, from}, nil
}

func (s stream) read(ctx context.Context, follow bool, emit func([]byte) error) error {
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
			shards[i] = out.NextShardIterator // nil means that the shard is closed
			behind = behind || out.NextShardIterator != nil && aws.ToInt64(out.MillisBehindLatest) > 0
			for _, r := range out.Records {
				for line := range bytes.Lines(r.Data) {
					if err := emit(line); err != nil {
						return err
					}
				}
			}
		}
		if !behind && !follow || !pause(ctx) {
			return nil
		}
	}
}

// iterators returns an iterator at the start position in each shard.
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

// shardPause limits the reads of a shard to four a second. Kinesis allows five.
const shardPause = time.Second / 4

// pause waits for shardPause or until ctx ends. It returns false if ctx ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(shardPause):
		return true
	case <-ctx.Done():
		return false
	}
}
