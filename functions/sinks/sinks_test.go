package sinks_test

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
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// load loads a configuration from a list of NAME=value.
func load(t *testing.T, variables ...string) boot.Config {
	t.Helper()
	c, err := boot.Load(func(name string) (string, bool) {
		for _, v := range variables {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var hash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))

// publish sends the events of one refused and one allowed request to the configured destination. It
// returns the log.
func publish(t *testing.T, variables ...string) (log string) {
	t.Helper()
	c := load(t, append(variables, "NAMESPACE=dev", "STORE=memory", "EVENTS_SAMPLE=1")...)
	var out, metrics bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	recorder := telemetry.New(&metrics, "dev", hash)
	sink, err := sinks.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p := decisionlog.New(decisionlog.Options{
		Namespace: c.Namespace, Hash: hash, Sink: sink, OneIn: c.Sample,
		Budget: decisionlog.DefaultBudget, Dropped: recorder.EventsDropped, Logger: logger,
	})
	now := time.Now()
	p.Record(telemetry.Outcome{Time: now, Duration: time.Millisecond, Caller: caller.Caller{User: "alice"}})
	p.Record(telemetry.Outcome{Time: now, Duration: time.Millisecond, Caller: caller.Caller{User: "alice"}, Decision: limiter.Decision{Allowed: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p.Close(ctx, now)
	recorder.RulesRefused(now.Add(time.Minute)) // a record in the next minute makes the recorder write the previous log lines
	if counted, logged := strings.Contains(metrics.String(), `"EventsDropped":2`), out.Len() > 0; counted != logged {
		t.Errorf("dropped events: counted %t, logged %t; want both or neither: %s", counted, logged, &metrics)
	}
	return out.String()
}

// outcomes returns the outcomes of events in order.
func outcomes(t *testing.T, lines ...[]byte) (all []telemetry.Class) {
	t.Helper()
	for _, line := range lines {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Namespace != "dev" || e.Subject != hash(limiter.User("alice")) {
			t.Errorf("event %s: got namespace %q, subject %q and error %v; want dev, %q and no error", line, e.Namespace, e.Subject, err, hash(limiter.User("alice")))
		}
		all = append(all, e.Outcome)
	}
	return all
}

// The variables set the options of the connection.
func TestNewKafkaOptions(t *testing.T) {
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
		o, err := sinks.NewKafkaOptions(t.Context(), load(t, variables...))
		if err != nil || !slices.Equal(o.Brokers, []string{"b:9098", "c:9098"}) || o.Topic != "weir" || o.TLS != c.tls || (o.Login != nil) != c.login {
			t.Errorf("%s: got options %+v, %v; want brokers b:9098 and c:9098, topic weir, TLS %t, login %t", c.variables, o, err, c.tls, c.login)
		}
		if o.Login != nil {
			if id, secret, _, err := o.Login(t.Context()); id != "AKIAEXAMPLE" || secret != "secret" || err != nil {
				t.Errorf("login: got %s %s, %v; want AKIAEXAMPLE and its secret", id, secret, err)
			}
		}
	}
}

// The sink calls only actions that the policies allow. It logs a failed call once.
func TestOpen_kinesis(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		var actions []string
		var got []telemetry.Class
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			actions = append(actions, "kinesis:"+operation)
			var in struct {
				StreamName string
				Records    []struct{ Data []byte }
			}
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.StreamName != "weir" {
				t.Errorf("call to the stream: got %+v, %v; want the stream weir", in, err)
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
		if !slices.Equal(actions, contract.KinesisActions()) {
			t.Errorf("called actions: got %v, want %v, each once", actions, contract.KinesisActions())
		}
		switch {
		case status == http.StatusOK && (log != "" || !slices.Equal(got, []telemetry.Class{"refused", "allowed"})):
			t.Errorf("got outcomes %v and log %s; want refused and allowed, and no log", got, log)
		case status != http.StatusOK && (strings.Count(log, "events dropped") != 1 || !strings.Contains(log, "events=2") || !strings.Contains(log, "ResourceNotFoundException")):
			t.Errorf("log of a failed call: got %s, want one line about two dropped events", log)
		}
	}
}

func TestOpen_none(t *testing.T) {
	if sink, err := sinks.Open(t.Context(), load(t, "NAMESPACE=dev", "STORE=memory")); sink != nil || err != nil {
		t.Errorf("got sink %v, %v; want nil", sink, err)
	}
}

// The client of the stream loses no answer, because a retry would send the batch twice.
func TestKinesisClient(t *testing.T) {
	client := storetest.Must(sinks.KinesisClient(t.Context(), load(t, "NAMESPACE=dev", "STORE=memory", "EVENTS=kinesis", "KINESIS_STREAM=weir", "KINESIS_ENDPOINT=http://127.0.0.1:1", "WEIR_LOCAL=true")))
	used, ok := client.Options().HTTPClient.(resilient.HTTPClient)
	if !ok {
		t.Fatalf("HTTP client: got %T, want a resilient.HTTPClient", client.Options().HTTPClient)
	}
	if got := used.Doer.(*awshttp.BuildableClient).GetTransport().IdleConnTimeout; got != resilient.ConnectionLife {
		t.Errorf("idle connections are closed after %s, want %s", got, resilient.ConnectionLife)
	}
}
