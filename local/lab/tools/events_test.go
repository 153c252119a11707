package main

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// fill sends two events with 40 refusals of alice to the sink of c.
func fill(t *testing.T, c boot.EventsConfig) {
	t.Helper()
	sink, err := sinks.Open(t.Context(), boot.Config{Local: true, EventsConfig: c})
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := sink.(*sinks.Kafka); ok {
		defer k.Close()
	}
	p := decisionlog.New(decisionlog.Options{
		Namespace: "dev", Hash: subjectHash, Sink: sink, Dropped: func(time.Time, int64) { t.Error("got dropped events, want none") },
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	})
	for i := range 40 {
		p.Record(telemetry.Outcome{Time: time.Now().Truncate(time.Hour).Add(time.Duration(i%2) * time.Second), Caller: caller.Caller{User: "alice"}})
	}
	p.Close(t.Context(), time.Now())
}

var subjectHash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))

// testLog is a log writer that fails the test at each line.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Errorf("log line: got %q, want none", b)
	return len(b), nil
}

// expectEvents checks that weir-tools events prints the events of fill.
func expectEvents(t *testing.T, args ...string) {
	t.Helper()
	code, out, errs := tool(t, append([]string{"events"}, args...)...)
	var refused int64
	for line := range strings.Lines(out) {
		var e decisionlog.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Outcome != telemetry.ClassRefused || e.Subject != subjectHash(limiter.User("alice")) {
			t.Errorf("line %s: got error %v, want a refusal of alice", line, err)
		}
		refused += e.Count
	}
	if code != 0 || errs != "" || refused != 40 {
		t.Errorf("got exit %d, output %s%s, %d refusals, want 40", code, out, errs, refused)
	}
}

func TestEvents_kafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fill(t, boot.EventsConfig{Events: "kafka", KafkaBrokers: c.ListenAddrs(), KafkaTopic: "decisions"})
	expectEvents(t, "--brokers", c.ListenAddrs()[0], "--topic", "decisions")
	expectEvents(t, "--brokers", c.ListenAddrs()[0], "--topic", "decisions", "--last", "2h")
}

// The command does not read events that arrive after its start, because a busy topic has no end.
func TestEvents_kafka_busy(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fill(t, boot.EventsConfig{Events: "kafka", KafkaBrokers: c.ListenAddrs(), KafkaTopic: "decisions"})
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("decisions"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for range 2 { // the topic has two partitions
			client.Produce(t.Context(), kgo.StringRecord(`{"time":"2026-11-21T12:00:00Z","outcome":"refused","count":30,"subject":"aaaaaaaaaaaaaaaa","limit":"search"}`), nil)
		}
		return nil, nil, false
	})
	expectEvents(t, "--brokers", c.ListenAddrs()[0], "--topic", "decisions")
	code, out, errs := tool(t, "events", "--brokers", c.ListenAddrs()[0], "--topic", "unknown")
	if code != 1 || out != "" || !strings.Contains(errs, "has no topic unknown") {
		t.Errorf("unknown topic: got exit %d, output %s%s, want exit 1", code, out, errs)
	}
}

// With --tls or --iam, the command rejects a broker without a trusted certificate.
func TestEvents_kafka_tls(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, by := range []string{"--tls", "--iam"} {
		if code, _, errs := tool(t, "events", "--brokers", c.ListenAddrs()[0], "--topic", "decisions", by); code != 1 || !strings.Contains(errs, "certificate signed by unknown authority") {
			t.Errorf("%s: got exit %d, stderr %s, want exit 1 and an unknown authority", by, code, errs)
		}
	}
}

// weir-tools events reads from Apache Kafka. The other tests use a fake broker.
func TestKafkaEvents(t *testing.T) {
	brokers := storetest.Server(t, "kafka", "KAFKA_BROKERS")
	name := "top-" + rand.Text()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	if answer, err := request.RequestWith(t.Context(), c); err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatalf("topic %s: got %+v, error %v, want no error", name, answer, err)
	}
	fill(t, boot.EventsConfig{Events: "kafka", KafkaBrokers: []string{brokers}, KafkaTopic: name})
	expectEvents(t, "--brokers", brokers, "--topic", name)
}

func TestEvents_kinesis(t *testing.T) {
	var records []map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		answer := map[string]any{}
		switch operation {
		case "PutRecords":
			var in struct{ Records []struct{ Data []byte } }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			for _, each := range in.Records {
				records = append(records, map[string]any{"Data": base64.StdEncoding.EncodeToString(each.Data), "PartitionKey": "1", "SequenceNumber": "1"})
			}
			answer["Records"] = []any{map[string]any{"SequenceNumber": "1", "ShardId": "shard"}}
		case "ListShards":
			answer["Shards"] = []any{map[string]any{"ShardId": "shard", "HashKeyRange": map[string]any{"StartingHashKey": "0", "EndingHashKey": "1"}, "SequenceNumberRange": map[string]any{"StartingSequenceNumber": "0"}}}
		case "GetShardIterator":
			answer["ShardIterator"] = "first"
		case "GetRecords":
			var in struct{ ShardIterator string }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			answer["Records"], answer["NextShardIterator"], answer["MillisBehindLatest"] = []any{}, "last", 0
			if in.ShardIterator == "first" {
				answer["MillisBehindLatest"] = 5
			} else {
				answer["Records"] = records
			}
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	fill(t, boot.EventsConfig{Events: "kinesis", KinesisStream: "decisions", KinesisEndpoint: server.URL})
	t.Setenv("KINESIS_ENDPOINT", server.URL)
	expectEvents(t, "--stream", "decisions")
}
