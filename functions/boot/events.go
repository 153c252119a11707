package boot

import (
	"net"
	"strconv"

	"github.com/weir-limits/weir/functions/contract"
)

// EventsConfig is the configuration of decision events.
type EventsConfig struct {
	// Events is the kind of the destination: kafka or kinesis. If it is empty, there are no events.
	Events string `env:"EVENTS"`
	// Sample is the sampling rate of allowed requests: one in Sample allowed requests causes an event.
	// 100 means 1 %, and 0 means none.
	Sample int `env:"EVENTS_SAMPLE, default=100"`

	// KafkaBrokers lists some of the brokers as host:port. KafkaTopic is an existing topic.
	KafkaBrokers []string `env:"KAFKA_BROKERS"`
	KafkaTopic   string   `env:"KAFKA_TOPIC"`
	// KafkaTLS enables TLS to the brokers.
	KafkaTLS bool `env:"KAFKA_TLS, default=true"`
	// KafkaIAM enables the login to Amazon MSK with the IAM credentials of the environment.
	KafkaIAM bool `env:"KAFKA_IAM"`

	// KinesisStream is the name of a data stream.
	KinesisStream string `env:"KINESIS_STREAM"`
	// KinesisEndpoint is the URL of a Kinesis outside AWS. If it is empty, the client calls Kinesis in
	// AWS.
	KinesisEndpoint string `env:"KINESIS_ENDPOINT"`
}

func (c *EventsConfig) checkEvents(check func(ok bool, format string, args ...any)) {
	switch c.Events {
	case "":
		return
	case "kafka":
		check(len(c.KafkaBrokers) > 0, "KAFKA_BROKERS: required with EVENTS=kafka: some brokers, such as b-1.example.com:9098,b-2.example.com:9098")
		for _, broker := range c.KafkaBrokers {
			check(isAddress(broker), "KAFKA_BROKERS: got %q, want host:port", broker)
		}
		check(contract.IsName(c.KafkaTopic, 1, 249), "KAFKA_TOPIC: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", c.KafkaTopic)
		check(c.KafkaTLS || !c.KafkaIAM, "KAFKA_TLS: got false, want true with KAFKA_IAM; a login by IAM needs TLS")
	case "kinesis":
		check(contract.IsName(c.KinesisStream, 1, 128), "KINESIS_STREAM: got %q, want the name of a data stream: 1 to 128 letters, digits, _, . and -", c.KinesisStream)
	default:
		check(false, "EVENTS: got %q, want kafka, kinesis, or empty for no events", c.Events)
	}
	check(c.Sample >= 0 && c.Sample <= contract.MaxEventsSample, "EVENTS_SAMPLE: got %d, want 1 to %d (one event for this many allowed requests), or 0 for none", c.Sample, contract.MaxEventsSample)
}

// isAddress reports whether s has the form host:port.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
