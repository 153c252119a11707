package decisionlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// printer is a sink that prints some members of each event.
type printer struct{}

// Send implements decisionlog.Sink.
func (printer) Send(_ context.Context, batch [][]byte) (lost int, err error) {
	for _, line := range batch {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return len(batch), err
		}
		fmt.Println(e.Subject, e.Outcome, e.Count)
	}
	return 0, nil
}

func ExamplePublisher() {
	hash := telemetry.NewSubjectHash("prod", []byte("from a store of secrets"))
	p := decisionlog.New(decisionlog.Options{Namespace: "prod", Hash: hash, Sink: printer{}, OneIn: 100})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	p.Begin(now) // at the start of a request; there is nothing to send yet
	for range 3 {
		p.Record(outcomeOf(now, time.Millisecond, caller.Caller{User: "alice"}, limiter.Decision{Allowed: false}, nil))
	}
	p.Close(context.Background(), now) // at the end of the process; sends the remaining events
	// Output: 124dab77df32a24f refused 3
}

func ExamplePublisher_Wait() {
	hash := telemetry.NewSubjectHash("prod", []byte("from a store of secrets"))
	p := decisionlog.New(decisionlog.Options{
		Namespace: "prod", Hash: hash, Sink: printer{}, OneIn: 100,
		Budget: decisionlog.DefaultBudget, // in Lambda nothing runs between requests
	})
	answer := func(ctx context.Context, now time.Time) {
		p.Begin(now)
		defer p.Wait(ctx)
		// ... decide the request, and then:
		p.Record(outcomeOf(now, time.Millisecond, caller.Caller{User: "bob"}, limiter.Decision{}, nil))
	}
	answer(context.Background(), time.Now())
	answer(context.Background(), time.Now()) // sends the event of the first request
	p.Close(context.Background(), time.Now())
	// Output:
	// 9a845ed9880a9c7e refused 1
	// 9a845ed9880a9c7e refused 1
}
