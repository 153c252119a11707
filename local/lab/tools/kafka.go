package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/local/command"
)

// maxSilence is the maximum time without a record. A read fails if it gets no record for this time before
// it reaches the end of the topic. A broker can take 5 s to answer a request without records.
const maxSilence = 15 * time.Second

// reachTimeout is the maximum time until the first answer of a broker.
const reachTimeout = 10 * time.Second

// topic is a source of the events in a topic.
type topic struct {
	client *kgo.Client
	name   string
	// starts has the first offset to read in each partition. ends has the offset at which reading stops,
	// which is not read. With follow, ends has no effect.
	starts, ends kadm.ListedOffsets
}

func (o *eventsOptions) kafka(ctx context.Context) (source, error) {
	if o.topic == "" {
		return nil, command.Usage("--topic: required: name of the topic with the events; or set KAFKA_TOPIC")
	}
	connection, err := sinks.NewKafkaOptions(ctx, boot.Config{Clients: clients.Default(), EventsConfig: boot.EventsConfig{KafkaBrokers: o.brokers, KafkaTopic: o.topic, KafkaTLS: o.tls || o.iam, KafkaIAM: o.iam}})
	if err != nil {
		return nil, err
	}
	// A marker of a transaction has an offset too. The client must return markers: if a topic ends with a
	// marker, its last offset would otherwise never arrive.
	client, err := kgo.NewClient(append(connection.Connection(), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, fmt.Errorf("--brokers: %w", err)
	}
	t := topic{client: client, name: o.topic}
	if err := t.find(ctx, o.last); err != nil {
		client.Close()
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("--topic: kafka at %v has no topic %s", o.brokers, o.topic)
		}
		return nil, fmt.Errorf("kafka at %v: no answer (%w); check --brokers, --tls and --iam", o.brokers, err)
	}
	return t, nil
}

// find reads the start and end offsets. If last is not 0, the start is the first event that is not older
// than last.
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

// unread returns the end offset of each partition that has events to read.
func (t topic) unread() map[int32]int64 {
	all := map[int32]int64{}
	t.ends.Each(func(end kadm.ListedOffset) {
		if start, _ := t.starts.Lookup(t.name, end.Partition); start.Offset < end.Offset {
			all[end.Partition] = end.Offset
		}
	})
	return all
}

func (t topic) read(ctx context.Context, follow bool, emit func([]byte) error) error {
	defer t.client.Close()
	t.client.AddConsumePartitions(t.starts.KOffsets())
	for left := t.unread(); follow || len(left) > 0; {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if !follow {
			poll, cancel = context.WithTimeout(ctx, maxSilence)
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
			if follow || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("kafka topic %s: no record for %s; partitions not read to their end: %v", t.name, maxSilence, slices.Sorted(maps.Keys(left)))
		}
		for records := fetched.RecordIter(); !records.Done(); {
			r := records.Next()
			if end, ok := left[r.Partition]; !follow && (!ok || r.Offset >= end) {
				t.done(left, r.Partition)
				continue
			}
			if !r.Attrs.IsControl() {
				if err := emit(r.Value); err != nil {
					return err
				}
			}
			if r.Offset+1 >= left[r.Partition] && !follow {
				t.done(left, r.Partition)
			}
		}
	}
	return nil
}

// done ends the reading of a partition.
func (t topic) done(left map[int32]int64, partition int32) {
	delete(left, partition)
	t.client.PauseFetchPartitions(map[string][]int32{t.name: {partition}})
}
