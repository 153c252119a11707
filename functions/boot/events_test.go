package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks/kinesis"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/telemetry"
)

func TestLoad_events(t *testing.T) {
	c, err := boot.Load(lookup("NAMESPACE=a", "STORE=memory", "EVENTS=kafka", "KAFKA_BROKERS=b-1.example:9098,[::1]:9092", "KAFKA_TOPIC=weir", "KAFKA_IAM=true"))
	if err != nil || len(c.KafkaBrokers) != 2 || !c.KafkaTLS || c.Sample != 100 {
		t.Errorf("got %+v, %v", c.EventsConfig, err)
	}
	for _, bad := range []struct{ variables, want string }{
		{"EVENTS=sqs", `EVENTS: got "sqs", want kafka or kinesis, or nothing for no events`},
		{"EVENTS=kafka KAFKA_TOPIC=t", "KAFKA_BROKERS: is missing: such as b-1.example.com:9098,b-2.example.com:9098"},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:1,b", `KAFKA_BROKERS: got "b", want host:port`},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:70000", `KAFKA_BROKERS: got "b:70000", want host:port`},
		{"EVENTS=kafka KAFKA_TOPIC=a/b KAFKA_BROKERS=b:1", `KAFKA_TOPIC: got "a/b", want the name of a topic: 1 to 249 letters, digits, _, . and -`},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:1 KAFKA_TLS=false KAFKA_IAM=true", "KAFKA_TLS: want true with KAFKA_IAM: who logs in by IAM needs TLS"},
		{"EVENTS=kinesis", `KINESIS_STREAM: got "", want the name of a data stream: 1 to 128 letters, digits, _, . and -`},
		{"EVENTS=kinesis KINESIS_STREAM=s EVENTS_SAMPLE=-1", "EVENTS_SAMPLE: got -1, want 1 to 1000000, the requests that one event stands for, or 0 for no event of plain allowed ones"},
	} {
		variables := append(strings.Fields(bad.variables), "NAMESPACE=a", "STORE=memory")
		if _, err := boot.Load(lookup(variables...)); err == nil || err.Error() != bad.want {
			t.Errorf("%s:\n got %v\nwant %s", bad.variables, err, bad.want)
		}
	}
}

var hash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))

// publish sends an event of a refusal as the variables say, and one of an allowed request.
func publish(t *testing.T, variables ...string) (log string) {
	t.Helper()
	c, err := boot.Load(lookup(append(variables, "NAMESPACE=dev", "STORE=memory", "EVENTS_SAMPLE=1")...))
	if err != nil {
		t.Fatal(err)
	}
	var out, metrics bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	recorder := telemetry.New(&metrics, "dev", hash)
	p, closeSink, err := c.OpenEvents(t.Context(), recorder, hash, logger, decisionlog.DefaultBudget)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSink()
	now := time.Now()
	p.Record(now, time.Millisecond, limiter.Caller{User: "alice"}, limiter.Decision{}, nil)
	p.Record(now, time.Millisecond, limiter.Caller{User: "alice"}, limiter.Decision{Allowed: true}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p.Close(ctx, now)
	recorder.RulesRefused(now.Add(time.Minute)) // by which lines of before are written
	if told, logged := strings.Contains(metrics.String(), `"EventsDropped":2`), out.Len() > 0; told != logged {
		t.Errorf("events dropped: counted %t, logged %t: %s", told, logged, &metrics)
	}
	return out.String()
}

// outcomes returns the outcomes of events in order.
func outcomes(t *testing.T, lines ...[]byte) (all []decisionlog.Outcome) {
	t.Helper()
	for _, line := range lines {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Namespace != "dev" || e.Subject != hash(limiter.User("alice")) {
			t.Errorf("%s: %v", line, err)
		}
		all = append(all, e.Outcome)
	}
	return all
}

// What the variables say of a connection is what it is made by.
func TestConfig_KafkaOptions(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, c := range []struct {
		variables  string
		tls, login bool
	}{
		{"", true, false},
		{"KAFKA_TLS=false", false, false},
		{"KAFKA_IAM=true", true, true},
	} {
		variables := append(strings.Fields(c.variables), "NAMESPACE=dev", "STORE=memory", "EVENTS=kafka", "KAFKA_TOPIC=weir", "KAFKA_BROKERS=b:9098,c:9098")
		o, err := load(t, variables...).KafkaOptions(t.Context())
		if err != nil || !slices.Equal(o.Brokers, []string{"b:9098", "c:9098"}) || o.Topic != "weir" || o.TLS != c.tls || (o.Login != nil) != c.login {
			t.Errorf("%s: got %+v, %v", c.variables, o, err)
		}
		if o.Login != nil {
			if id, secret, _, err := o.Login(t.Context()); id != "AKIAEXAMPLE" || secret != "secret" || err != nil {
				t.Errorf("got %s %s, %v", id, secret, err)
			}
		}
	}
}

func TestConfig_OpenEvents_kafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "weir"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if log := publish(t, "EVENTS=kafka", "KAFKA_TOPIC=weir", "KAFKA_TLS=false", "KAFKA_BROKERS="+strings.Join(c.ListenAddrs(), ",")); log != "" {
		t.Error(log)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("weir"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got []decisionlog.Outcome
	for len(got) < 2 && t.Context().Err() == nil {
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { got = append(got, outcomes(t, r.Value)...) })
	}
	if !slices.Equal(got, []decisionlog.Outcome{"refused", "allowed"}) {
		t.Errorf("got %v", got)
	}
}

// What is called at AWS is what the policies allow, and a call that the stream fails is
// told once.
func TestConfig_OpenEvents_kinesis(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		var actions []string
		var got []decisionlog.Outcome
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			actions = append(actions, "kinesis:"+operation)
			var in struct {
				StreamName string
				Records    []struct{ Data []byte }
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.StreamName != "weir" {
				t.Errorf("%+v, %v", in, err)
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(status)
			if status != http.StatusOK {
				_, _ = io.WriteString(w, `{"__type":"ResourceNotFoundException","message":"no stream"}`)
				return
			}
			for _, record := range in.Records {
				got = append(got, outcomes(t, bytes.Split(bytes.TrimSpace(record.Data), []byte("\n"))...)...)
			}
			_, _ = io.WriteString(w, `{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ShardId":"s"}]}`)
		}))
		log := publish(t, "EVENTS=kinesis", "KINESIS_STREAM=weir", "KINESIS_ENDPOINT="+server.URL, "WEIR_LOCAL=true")
		server.Close()
		if !slices.Equal(actions, kinesis.Actions()) {
			t.Errorf("got %v called, want %v, once", actions, kinesis.Actions())
		}
		switch {
		case status == http.StatusOK && (log != "" || !slices.Equal(got, []decisionlog.Outcome{"refused", "allowed"})):
			t.Errorf("got %v, %s", got, log)
		case status != http.StatusOK && (strings.Count(log, "events dropped") != 1 || !strings.Contains(log, "events=2") || !strings.Contains(log, "ResourceNotFoundException")):
			t.Errorf("got %s", log)
		}
	}
}

// asked is a context that records whether its Done was called. A timer derived from it calls Done
// too, on a goroutine of its own.
type asked struct {
	context.Context
	done atomic.Bool
}

// Done implements context.Context.
func (a *asked) Done() <-chan struct{} {
	a.done.Store(true)
	return a.Context.Done()
}

// A function waits for its events, because Lambda freezes it when it has answered.
func TestOpen_events(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	defer close(held)
	e, err := boot.Open(t.Context(), lookup("NAMESPACE=dev", "STORE=memory", "WEIR_LOCAL=true", "EVENTS=kinesis", "KINESIS_STREAM=weir", "KINESIS_ENDPOINT="+server.URL), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.Events.Record(e.Clock(), 0, limiter.Caller{User: "alice"}, limiter.Decision{}, nil)
	e.Events.Begin(e.Clock())
	ctx := &asked{Context: t.Context()}
	if e.Events.Wait(ctx); !ctx.done.Load() {
		t.Error("nobody waits for events")
	}
}

func TestConfig_OpenEvents_none(t *testing.T) {
	if log := publish(t); log != "" {
		t.Error(log)
	}
}
