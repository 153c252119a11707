// Package sinks opens the destination of decision events: a topic of Apache Kafka or a data stream of
// Amazon Kinesis. It is not part of package boot, so that programs without events link neither
// client.
package sinks

import (
	"context"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/decisionlog"
)

// Open returns the destination that EVENTS selects. It returns nil if EVENTS is empty. It does not
// connect. The caller can close a *Kafka.
func Open(ctx context.Context, c boot.Config) (decisionlog.Sink, error) {
	switch c.Events {
	case "":
		return nil, nil
	case "kafka":
		o, err := NewKafkaOptions(ctx, c)
		if err != nil {
			return nil, err
		}
		return NewKafka(o)
	}
	client, err := KinesisClient(ctx, c)
	if err != nil {
		return nil, err
	}
	return stream{client, c.KinesisStream}, nil
}
