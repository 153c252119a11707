package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/command"
)

func eventsCommand() *cobra.Command {
	o := &eventsOptions{}
	c := &cobra.Command{
		Use:   "events",
		Short: "Print the events of a Kafka topic or a Kinesis stream",
		Long: "Print the decision events of a Kafka topic (--brokers) or a Kinesis data stream (--stream), oldest first, one JSON object per line.\n\n" +
			"Without --follow, the command reads up to the last event that existed when it started. It fails if a Kafka topic delivers none of them for 15 seconds.",
		Example: "  weir-tools events --stream weir-prod-events | jq 'select(.outcome == \"refused\")'\n" +
			"  weir-tools events --brokers broker:9098 --topic decisions --iam --last 5m --follow",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.brokers, "brokers", nil, "read a topic of Kafka, from these brokers, host:port each")
	f.StringVar(&o.topic, "topic", os.Getenv("KAFKA_TOPIC"), "the topic; default $KAFKA_TOPIC")
	f.BoolVar(&o.tls, "tls", false, "connect to the brokers with TLS")
	f.BoolVar(&o.iam, "iam", false, "log in to Amazon MSK with IAM and TLS, with the credentials of the AWS configuration")
	f.StringVar(&o.stream, "stream", "", "read a data stream of Kinesis")
	f.DurationVar(&o.last, "last", 0, "maximum age of the first event; 0: start with the oldest event")
	f.BoolVar(&o.follow, "follow", false, "wait for new events until an interrupt")
	return c
}

type eventsOptions struct {
	brokers  []string
	topic    string
	tls, iam bool
	stream   string
	last     time.Duration
	follow   bool
}

// source calls emit with events until it reaches the end or, with follow, until ctx ends.
type source interface {
	read(ctx context.Context, follow bool, emit func(event []byte) error) error
}

func (o *eventsOptions) run(ctx context.Context, out io.Writer) error {
	from, err := o.source(ctx)
	if err != nil {
		return err
	}
	return from.read(ctx, o.follow, func(event []byte) error {
		_, err := out.Write(append(bytes.TrimSpace(event), '\n'))
		return err
	})
}

// source returns the topic or the stream that the command line names.
func (o *eventsOptions) source(ctx context.Context) (source, error) {
	switch {
	case o.last < 0:
		return nil, command.Usage("--last: got %s, want a time such as 5m, or 0 for all events", o.last)
	case (len(o.brokers) > 0) == (o.stream != ""):
		return nil, command.Usage("--brokers and --stream: want exactly one of them")
	case o.stream != "":
		return o.kinesis(ctx)
	}
	return o.kafka(ctx)
}
