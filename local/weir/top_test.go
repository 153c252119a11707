package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/functions/sinks/kafka"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/outcome"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/top"
)

const topLines = `{"time":"2026-11-21T12:00:00Z","outcome":"refused","count":30,"subject":"aaaaaaaaaaaaaaaa","limit":"search"}
{"time":"2026-11-21T12:00:01Z","outcome":"refused","count":10,"subject":"bbbbbbbbbbbbbbbb","limit":"data"}
{"time":"2026-11-21T13:00:00Z","outcome":"refused","count":5,"subject":"bbbbbbbbbbbbbbbb","limit":"data"}
no event
`

func TestTop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(topLines), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "45 refused; 1 lines are neither events nor of the metrics log\n" +
		"REFUSED  OVER  %     CALLER            LIMIT\n" +
		"30       0     66.7  aaaaaaaaaaaaaaaa  search\n" +
		"15       0     33.3  bbbbbbbbbbbbbbbb  data\n"
	if code, out, errs := weir(t, "top", file); code != 0 || out != want {
		t.Errorf("got %d %s%s\nwant\n%s", code, out, errs, want)
	}
	if code, out, errs := weir(t, "top", "--last", "1m", "-n", "1", file); code != 0 || !strings.HasPrefix(out, "5 refused within 1m0s;") || strings.Contains(out, "aaaa") {
		t.Errorf("got %d %s%s, want the last 5", code, out, errs)
	}
	var got top.Table
	code, out, errs := weir(t, "top", "--json", file)
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Refused != 45 || got.Skipped != 1 || len(got.Most) != 2 {
		t.Errorf("got %d %s%s, %v", code, out, errs, err)
	}
	for args, want := range map[string]string{
		"top a b":                    `got ["a" "b"], want one FILE`,
		"top --number 0 -":           "--number: got 0, want 1 to 1000",
		"top --last=-1s -":           "--last: got -1s, want a time such as 5m",
		"top --brokers a:1 --stream": "flag needs an argument",
		"top --brokers a:1 x":        "want one of FILE, --brokers and --stream",
		"top --brokers a:1":          "--topic: is missing",
	} {
		if code, _, errs := weir(t, strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: got %d %s, want %s", args, code, errs, want)
		}
	}
	if code, _, errs := weir(t, "top", file+"x"); code != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("got %d %s", code, errs)
	}
}

// What is refused by make run is in .weir/metrics.log, without a broker.
func TestTop_local(t *testing.T) {
	l := newLocal(t, memory, "testdata/design.json")
	for range 25 { // of which 20 pass
		l.send(l.rest, http.MethodGet, "/api/v1/search", "")
	}
	l.wait(2 * time.Second)
	l.send(l.rest, http.MethodGet, "/api/v1/search", "")
	if code, out, errs := weir(t, "top"); code != 0 || !strings.HasPrefix(out, "5 refused\n") || !strings.Contains(out, "  search\n") {
		t.Errorf("got %d %s%s", code, out, errs)
	}
}

// A file that grows is followed, and a line counts when it is whole.
func TestLogFile_follow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("one\ntw"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- logFile{file}.read(ctx, true, lines) }()
	if got := string(<-lines); got != "one" {
		t.Errorf("got %q", got)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := io.WriteString(f, "o\n"); err != nil {
		t.Fatal(err)
	}
	if got := string(<-lines); got != "two" {
		t.Errorf("got %q", got)
	}
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil { // as make run begins its log
		t.Fatal(err)
	}
	if got := string(<-lines); got != "new" {
		t.Errorf("got %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// fill sends 40 refusals of alice, in two events, to what the variables name.
func fill(t *testing.T, c boot.EventsConfig) {
	t.Helper()
	sink, err := sinks.Open(t.Context(), boot.Config{Local: true, EventsConfig: c})
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := sink.(*kafka.Sink); ok {
		defer k.Close()
	}
	p := decisionlog.New(decisionlog.Options{
		Namespace: "dev", Hash: subjectHash, Sink: sink, Dropped: func(time.Time, int64) { t.Error("events dropped") },
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	})
	for i := range 40 {
		p.Record(outcome.Outcome{Time: time.Now().Truncate(time.Hour).Add(time.Duration(i%2) * time.Second), Caller: caller.Caller{User: "alice"}})
	}
	p.Close(t.Context(), time.Now())
}

var subjectHash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))

// testLog fails a test by what is logged.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Errorf("%s", b)
	return len(b), nil
}

// expectTop checks that top tells of what fill sends.
func expectTop(t *testing.T, args ...string) {
	t.Helper()
	var got top.Table
	code, out, errs := weir(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Refused != 40 || got.Skipped != 0 || len(got.Most) != 1 ||
		got.Most[0].Subject != subjectHash(limiter.User("alice")) {
		t.Errorf("got %d %s%s, %v", code, out, errs, err)
	}
}

func TestTop_kafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fill(t, boot.EventsConfig{Events: "kafka", KafkaBrokers: c.ListenAddrs(), KafkaTopic: "decisions"})
	expectTop(t, "top", "--brokers", c.ListenAddrs()[0], "--topic", "decisions")
	expectTop(t, "top", "--brokers", c.ListenAddrs()[0], "--topic", "decisions", "--last", "2h")
}

// What comes while a topic is read does not count, or a busy one would have no end.
func TestTop_kafka_busy(t *testing.T) {
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
		for range 2 { // partitions
			client.Produce(t.Context(), kgo.StringRecord(strings.SplitAfter(topLines, "\n")[0]), nil)
		}
		return nil, nil, false
	})
	expectTop(t, "top", "--brokers", c.ListenAddrs()[0], "--topic", "decisions")
	code, out, errs := weir(t, "top", "--brokers", c.ListenAddrs()[0], "--topic", "unknown")
	if code != 1 || out != "" || !strings.Contains(errs, "has no topic unknown") {
		t.Errorf("got %d %s%s", code, out, errs)
	}
}

// By --tls a broker has to show a certificate that is trusted, and by --iam too.
func TestTop_kafka_tls(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, by := range []string{"--tls", "--iam"} {
		if code, _, errs := weir(t, "top", "--brokers", c.ListenAddrs()[0], "--topic", "decisions", by); code != 1 || !strings.Contains(errs, "certificate signed by unknown authority") {
			t.Errorf("%s: got %d %s", by, code, errs)
		}
	}
}

// The same, with Apache Kafka.
func TestKafkaTop(t *testing.T) {
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
		t.Fatalf("topic %s: %+v, %v", name, answer, err)
	}
	fill(t, boot.EventsConfig{Events: "kafka", KafkaBrokers: []string{brokers}, KafkaTopic: name})
	expectTop(t, "top", "--brokers", brokers, "--topic", name)
}

func TestTop_kinesis(t *testing.T) {
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
	expectTop(t, "top", "--stream", "decisions")
}

// What a line says cannot steer a terminal.
func TestTopOptions_print(t *testing.T) {
	var out bytes.Buffer
	o := topOptions{n: 1}
	table := top.Table{Refused: 1, Most: []top.Refused{{Caller: top.Caller{Subject: "\x1b[2Ja", Limit: "\x9b1m"}, Count: 1}}}
	if err := o.print(&out, table); err != nil || strings.ContainsAny(out.String(), "\x1b\u009b") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
