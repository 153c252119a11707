package boot_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

func TestLoad_events(t *testing.T) {
	c, err := boot.Load(lookup("NAMESPACE=a", "STORE=memory", "EVENTS=kafka", "KAFKA_BROKERS=b-1.example:9098,[::1]:9092", "KAFKA_TOPIC=weir", "KAFKA_IAM=true"))
	if err != nil || len(c.KafkaBrokers) != 2 || !c.KafkaTLS || c.Sample != 100 {
		t.Errorf("events configuration: got %+v, %v; want 2 brokers, TLS and sample 100", c.EventsConfig, err)
	}
	for _, bad := range []struct{ variables, want string }{
		{"EVENTS=sqs", `EVENTS: got "sqs", want kafka, kinesis, or empty for no events`},
		{"EVENTS=kafka KAFKA_TOPIC=t", "KAFKA_BROKERS: required with EVENTS=kafka: some brokers, such as b-1.example.com:9098,b-2.example.com:9098"},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:1,b", `KAFKA_BROKERS: got "b", want host:port`},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:70000", `KAFKA_BROKERS: got "b:70000", want host:port`},
		{"EVENTS=kafka KAFKA_TOPIC=a/b KAFKA_BROKERS=b:1", `KAFKA_TOPIC: got "a/b", want the name of a topic: 1 to 249 letters, digits, _, . and -`},
		{"EVENTS=kafka KAFKA_TOPIC=t KAFKA_BROKERS=b:1 KAFKA_TLS=false KAFKA_IAM=true", "KAFKA_TLS: got false, want true with KAFKA_IAM; a login by IAM needs TLS"},
		{"EVENTS=kinesis", `KINESIS_STREAM: got "", want the name of a data stream: 1 to 128 letters, digits, _, . and -`},
		{"EVENTS=kinesis KINESIS_STREAM=s EVENTS_SAMPLE=-1", "EVENTS_SAMPLE: got -1, want 1 to 1000000 (one event for this many allowed requests), or 0 for none"},
	} {
		variables := append(strings.Fields(bad.variables), "NAMESPACE=a", "STORE=memory")
		if _, err := boot.Load(lookup(variables...)); err == nil || err.Error() != bad.want {
			t.Errorf("%s:\n got %v\nwant %s", bad.variables, err, bad.want)
		}
	}
}

// doneRecorder is a context that records calls of its Done method. A timer of a derived context also calls
// Done, on its own goroutine.
type doneRecorder struct {
	context.Context
	done atomic.Bool
}

// Done implements context.Context.
func (a *doneRecorder) Done() <-chan struct{} {
	a.done.Store(true)
	return a.Context.Done()
}

// A function waits until its events are sent, and then answers. After the answer, Lambda can freeze
// the environment.
func TestOpen_events(t *testing.T) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer server.Close()
	defer close(held)
	e, err := boot.Open(t.Context(), lookup("NAMESPACE=dev", "STORE=memory", "WEIR_LOCAL=true", "EVENTS=kinesis", "KINESIS_STREAM=weir", "KINESIS_ENDPOINT="+server.URL), slog.New(slog.DiscardHandler), boot.Clients{AWS: clients.Default().AWS, Events: sinks.Open})
	if err != nil {
		t.Fatal(err)
	}
	e.Events.Record(telemetry.Outcome{Time: e.Clock(), Caller: caller.Caller{User: "alice"}})
	e.Events.Begin(e.Clock())
	ctx := &doneRecorder{Context: t.Context()}
	if e.Events.Wait(ctx); !ctx.done.Load() {
		t.Error("Wait: got an immediate return, want a wait for the events")
	}
}
