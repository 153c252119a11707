// Package otellimit records decisions with OpenTelemetry, as metrics and as an event of the current span:
//
//	limit := httplimit.PerIP(100, time.Minute, httplimit.WithObserver(otellimit.Observer(nil)))
//
// # Metrics
//
//	weir.decisions          counter    {request}  attributes weir.outcome, weir.limit.name, weir.limit.rule, error.type
//	weir.decision.duration  histogram  s          attribute weir.outcome; includes the identification of the caller
//	weir.store.duration     histogram  s          attribute error.type; decisions that waited for a remote store
//
// # Attributes
//
//	weir.outcome     allowed, refused (over a limit), unauthorized or failed (telemetry.Class)
//	weir.limit.name  name of the limit that the answer shows; missing if it shows none
//	weir.limit.rule  rule of that limit, such as "GET /api/v1/search"; missing for a limit without a rule
//	error.type       why the store did not decide, such as store_timeout (limiter.Reason); missing if it did
//
// The number of their values depends on the rules, and never on the callers: no attribute contains a caller or a
// path. So refusals of a limit are weir.decisions with weir.outcome "refused" and its name. An exporter for
// Prometheus calls them weir_decisions_total{weir_outcome="refused"}.
//
// # Span event
//
// If the span of the request's context is recorded, it gets the event "weir.decision" with the attributes above,
// and weir.limit.remaining and weir.retry_after (in seconds) if the answer has them.
package otellimit
