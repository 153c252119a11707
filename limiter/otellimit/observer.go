package otellimit

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const scope = "github.com/weir-limits/weir/limiter/otellimit"

// The keys of attributes.
const (
	outcomeKey    = attribute.Key("weir.outcome")
	limitKey      = attribute.Key("weir.limit.name")
	ruleKey       = attribute.Key("weir.limit.rule")
	remainingKey  = attribute.Key("weir.limit.remaining")
	retryAfterKey = attribute.Key("weir.retry_after")
	errorKey      = attribute.Key("error.type")
)

// buckets are the boundaries of durations, in seconds: from a decision in memory to the longest deadline.
var buckets = metric.WithExplicitBucketBoundaries(0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
	1)

// Observer returns a function for httplimit.WithObserver and httplimit.Options.Observe. It records with the meters
// of provider; nil means the global provider. The function is safe for concurrent use. An error of a meter goes to
// otel.Handle.
func Observer(provider metric.MeterProvider) func(context.Context, telemetry.Outcome) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(scope)
	decisions, err := meter.Int64Counter("weir.decisions", metric.WithUnit("{request}"), metric.WithDescription("Requests that were decided."))
	handle(err)
	duration, err := meter.Float64Histogram("weir.decision.duration", metric.WithUnit("s"), metric.WithDescription("Duration of decisions."),
		buckets)
	handle(err)
	store, err := meter.Float64Histogram("weir.store.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that decisions waited for a remote store."), buckets)
	handle(err)
	return func(ctx context.Context, o telemetry.Outcome) {
		result, failure := outcomeKey.String(string(o.Class())), reason(o.Decision.Reason)
		all := append([]attribute.KeyValue{result}, failure...)
		if l := o.Decision.Limit; l != nil {
			all = append(all, limitKey.String(l.Name))
			if l.Rule != "" {
				all = append(all, ruleKey.String(l.Rule))
			}
		}
		decisions.Add(ctx, 1, metric.WithAttributes(all...))
		duration.Record(ctx, o.Duration.Seconds(), metric.WithAttributes(result))
		if o.Decision.StoreCalls > 0 {
			store.Record(ctx, o.Decision.StoreTime.Seconds(), metric.WithAttributes(failure...))
		}
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.AddEvent("weir.decision", trace.WithAttributes(append(all, numbers(&o.Decision)...)...))
		}
	}
}

func reason(r limiter.Reason) []attribute.KeyValue {
	if r == limiter.ReasonNone {
		return nil
	}
	return []attribute.KeyValue{errorKey.String(string(r))}
}

// numbers returns the attributes of an event that have too many values for a metric.
func numbers(d *limiter.Decision) (of []attribute.KeyValue) {
	if d.Limit != nil {
		of = append(of, remainingKey.Int64(d.Remaining))
	}
	if d.RetryAfter > 0 {
		of = append(of, retryAfterKey.Float64(d.RetryAfter.Seconds()))
	}
	return of
}

func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}
