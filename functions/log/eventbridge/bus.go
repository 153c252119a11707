// Package eventbridge sends notices to an event bus of Amazon EventBridge.
package eventbridge

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go/logging"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

// maxEntries is the maximum number of events in a call.
const maxEntries = 10

// Open returns the bus with this name. Its client retries, because no request waits for it.
func Open(config aws.Config, bus string) lambdahttp.NoticeBus {
	// the caller logs the error once
	return New(eventbridge.NewFromConfig(config, func(o *eventbridge.Options) { o.Logger = logging.Nop{} }), bus)
}

// API is the part of the client that a Bus calls. *eventbridge.Client implements it.
type API interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput, ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

// Bus is an event bus. It implements lambdahttp.NoticeBus.
type Bus struct {
	api  API
	name string
}

// New returns the bus with this name.
func New(api API, name string) *Bus { return &Bus{api, name} }

// Put implements lambdahttp.NoticeBus. The bus accepts at most maxEntries events of a call, and can reject some of them.
func (b *Bus) Put(ctx context.Context, notices []lambdahttp.Notice) (sent int, err error) {
	for sent < len(notices) {
		batch := notices[sent:min(sent+maxEntries, len(notices))]
		entries := make([]types.PutEventsRequestEntry, len(batch))
		for i, n := range batch {
			entries[i] = types.PutEventsRequestEntry{
				EventBusName: &b.name, Source: aws.String("weir"), DetailType: aws.String("Weir Notice"),
				Time: aws.Time(n.Time.Truncate(time.Second)), Detail: aws.String(string(n.Detail)),
			}
		}
		out, err := b.api.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
		switch {
		case err != nil:
			return sent, fmt.Errorf("event bus: %w", err)
		case out.FailedEntryCount > 0:
			return sent, fmt.Errorf("event bus: %d of %d events rejected: %s", out.FailedEntryCount, len(entries), reason(out.Entries))
		}
		sent += len(batch)
	}
	return sent, nil
}

// reason returns the first error of a call.
func reason(entries []types.PutEventsResultEntry) string {
	for _, e := range entries {
		if e.ErrorCode != nil {
			return *e.ErrorCode + ": " + aws.ToString(e.ErrorMessage)
		}
	}
	return "no error code"
}
