package lambdahttp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// eventLog is a broker that stores the events it receives.
type eventLog struct {
	mu     sync.Mutex
	events []decisionlog.Event
	hang   bool
}

// Send implements decisionlog.Sink.
func (l *eventLog) Send(ctx context.Context, batch [][]byte) (lost int, err error) {
	if l.hang {
		<-ctx.Done()
		return len(batch), ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range batch {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return len(batch), err
		}
		l.events = append(l.events, e)
	}
	return 0, nil
}

func publisher(l *eventLog) *decisionlog.Publisher {
	return decisionlog.New(decisionlog.Options{
		Namespace: "test", Hash: telemetry.NewSubjectHash("test", nil), Sink: l, OneIn: 1, Budget: decisionlog.DefaultBudget, Logger: slog.New(slog.DiscardHandler),
	})
}

// Each function sends events for its own decisions. The handler sends no event for a decision of the
// authorizer.
func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, event string
		function    func(*lambdahttp.Environment) lambda.Handler
		want        map[telemetry.Class]int64
	}{
		{"authorizer", "rest-authorizer-anonymous.json", lambdahttp.NewAuthorizer, map[telemetry.Class]int64{"allowed": 2, "refused": 3}},
		{"handler", "http-api-anonymous.json", func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }, map[telemetry.Class]int64{"allowed": 2, "refused": 3}},
		{"handler behind the authorizer", "rest-proxy-anonymous.json", func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }, map[telemetry.Class]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &eventLog{}
			e := environment(t, storetest.Must(memstore.New(memstore.Options{})))
			e.Events = publisher(l)
			f := c.function(e)
			for range 5 {
				_, _ = f.Invoke(t.Context(), sampleEvent(t, c.event))
			}
			e.Events.Close(t.Context(), e.Clock())
			got := map[telemetry.Class]int64{}
			for _, each := range l.events {
				got[each.Outcome] += each.Count
				if each.Rule == "" || each.Limit == "" || each.Subject == "" || each.Cost != each.Count {
					t.Errorf("event: got %+v, want a rule, a limit, a subject and the cost", each)
				}
			}
			if len(got) != len(c.want) || got["allowed"] != c.want["allowed"] || got["refused"] != c.want["refused"] {
				t.Errorf("outcomes: got %v, want %v", got, c.want)
			}
		})
	}
}

// A hanging broker delays only five answers. Each delay is DefaultBudget. No request fails.
func TestEvents_hangingBroker(t *testing.T) {
	for _, c := range []struct {
		event    string
		function func(*lambdahttp.Environment) lambda.Handler
	}{
		{"rest-authorizer-anonymous.json", lambdahttp.NewAuthorizer},
		{"http-api-anonymous.json", func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &eventLog{hang: true}
			e := memory(t)
			e.Clock, e.Events = time.Now, publisher(l)
			f := c.function(e)
			var delayed int
			for range 20 {
				begun := time.Now()
				if _, err := f.Invoke(t.Context(), sampleEvent(t, c.event)); err != nil {
					t.Fatal(err)
				}
				switch took := time.Since(begun); took {
				case 0:
				case decisionlog.DefaultBudget:
					delayed++
				default:
					t.Errorf("%s: a request took %s, want 0s or the budget", c.event, took)
				}
			}
			if delayed != 5 {
				t.Errorf("%s: %d requests were delayed, want 5", c.event, delayed)
			}
			end, cancel := context.WithCancel(t.Context())
			cancel()
			e.Events.Close(end, e.Clock())
		})
	}
}
