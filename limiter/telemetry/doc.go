// Package telemetry writes what is decided to the log: metrics, which CloudWatch reads out
// of it, and who is refused.
//
// A [Recorder] is told of every request and writes at most one line of metrics a second,
// in CloudWatch's embedded metric format. The metrics have no dimensions, and a namespace
// for each deployment: "Weir/" and its name, see [Namespace]. Each request is one of
// Allowed, Refused, Unauthorized and Failed.
//
//	Allowed       Count         let through, also if no limit applies; it may have waited for
//	                            its turn in a leaky bucket, and then have gone
//	Refused       Count         over a limit: 429
//	Degraded      Count         of Allowed, Refused and Failed: the store failed, and it was not
//	                            the limits that decided, or not all of them
//	Remembered    Count         of Refused: refused without a store call
//	Shadowed      Count         of Allowed and Refused: a limit with Shadow would have refused
//	Unauthorized  Count         bad or missing credentials: 401
//	Failed        Count         no decision, a credential that could not be checked, or the store
//	                            failed and a limit denies then: 500, 503
//	StoreCalls    Count         Decision.StoreCalls; a call may be several requests of DynamoDB
//	Latency       Milliseconds  how long the decisions of Allowed and Refused took, identifying
//	                            the caller included; of more than 100 a line, a random 100
//	RulesRefused  Count         documents of rules that were not put into force: each start of a
//	                            function that has no other
//	RulesVersion  None          of the rules in force; environments that have not got the newest
//	                            yet make the minimum lower than the maximum
//	RulesAge      Seconds       since it was last known that their source has no other; missing
//	                            where nobody asks the source again
//	EventsDropped Count         events that were lost on their way to a broker (package events)
//
// A line has always Allowed and Refused, so that ratios have their denominators, and of the
// others those that are not zero: an alarm on them takes missing data for good. What ends a
// function before it can decide, and is not its rules, is in no metric.
//
// # Who is refused
//
// At most once a second there is a line for each of the ten callers that were refused most
// by one limit, and one without a subject for the rest:
//
//	{"weir":"refused","subject":"888bf3d24667b398","limit":"search","refused":17}
//	{"weir":"refused","refused":230}
//
// A rule of Contributor Insights takes $.subject for its key and the sum of $.refused, where
// $.weir is "refused" and $.subject is present. The subject is a [SubjectHash], so no line
// names a caller; limit is missing if none speaks.
//
// # What else is in the log
//
// Lines of other loggers, such as one for each credential that is refused, would grow with
// what clients send. [Sparing] makes a slog.Handler write one a second of each message.
//
// # When
//
// Nothing runs in the background, because Lambda freezes it. The first decision after a
// quiet second is written at once; later ones wait for the first decision when a second is
// over. What waited for longer than a minute is then written apart, under its own time;
// the lines of refused callers have the time at which they are written.
//
// What has waited when an environment ends is lost: up to a second's decisions, and not the
// first. Of more than 1,000 pairs of caller and limit between two writes, those that came
// later are counted with the rest. CloudWatch may count a line twice.
//
// # What it costs
//
// A line of one decision has 320 bytes, and 6 to 10 more for each latency. The log of an
// environment grows
//
//	by one request a second        320 B/s                  0.8 GB a month
//	by a hundred and more          320 + 99 × 6 = 915 B/s   2.4 GB a month
//	whatever is sent to it         at most 3.0 kB/s         7.8 GB a month
//
// by these lines alone: what else a function logs, such as why a credential was refused, comes
// on top. They are never more than one a request: a million requests are at most 0.32 GB, be they
// spread over however many environments, and refused ones 120 B more, for the lines of
// callers. CloudWatch keeps ten metrics a deployment, however many callers there are.
//
// Lambda takes these lines for level INFO, so a function that is set to log less sends no
// metrics.
package telemetry
