package boot

import (
	"net"
	"regexp"
	"strconv"
)

// EventsConfig says where events of decisions go.
type EventsConfig struct {
	// Events is what takes them: kafka or kinesis. Empty: there are none.
	Events string `env:"EVENTS"`
	// Sample is how many allowed requests one event stands for: 100 keeps 1 %, 0 none.
	Sample int `env:"EVENTS_SAMPLE, default=100"`

	// KafkaBrokers are some of the brokers, host:port each; KafkaTopic is a topic that is there.
	KafkaBrokers []string `env:"KAFKA_BROKERS"`
	KafkaTopic   string   `env:"KAFKA_TOPIC"`
	// KafkaTLS says that the brokers are spoken to by TLS.
	KafkaTLS bool `env:"KAFKA_TLS, default=true"`
	// KafkaIAM says that they are Amazon MSK's, where the environment's own credentials log in.
	KafkaIAM bool `env:"KAFKA_IAM"`

	// KinesisStream is the name of a data stream.
	KinesisStream string `env:"KINESIS_STREAM"`
	// KinesisEndpoint is where Kinesis is, if not at AWS.
	KinesisEndpoint string `env:"KINESIS_ENDPOINT"`
}

const maxSample = 1_000_000

var (
	validTopic  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,249}$`)
	validStream = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
)

// checkEvents says what is wrong with the variables of events.
func (c *EventsConfig) checkEvents(check func(ok bool, format string, args ...any)) {
	switch c.Events {
	case "":
		return
	case "kafka":
		check(len(c.KafkaBrokers) > 0, "KAFKA_BROKERS: is missing: such as b-1.example.com:9098,b-2.example.com:9098")
		for _, broker := range c.KafkaBrokers {
			check(isAddress(broker), "KAFKA_BROKERS: got %q, want host:port", broker)
		}
		check(validTopic.MatchString(c.KafkaTopic), "KAFKA_TOPIC: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", c.KafkaTopic)
		check(c.KafkaTLS || !c.KafkaIAM, "KAFKA_TLS: want true with KAFKA_IAM: who logs in by IAM needs TLS")
	case "kinesis":
		check(validStream.MatchString(c.KinesisStream), "KINESIS_STREAM: got %q, want the name of a data stream: 1 to 128 letters, digits, _, . and -", c.KinesisStream)
	default:
		check(false, "EVENTS: got %q, want kafka or kinesis, or nothing for no events", c.Events)
	}
	check(c.Sample >= 0 && c.Sample <= maxSample, "EVENTS_SAMPLE: got %d, want 1 to %d, the requests that one event stands for, or 0 for no event of plain allowed ones", c.Sample, maxSample)
}

// isAddress reports whether s is a host and a port.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
