// Package decisionlog sends decision events to a broker, for analytics: which callers were refused, by
// which limit and how often, and how many requests were allowed. A [Publisher] makes events of
// outcomes and sends them in batches to a [Sink].
//
// It guarantees that no request fails because of events or waits for them longer than the budget, and
// that memory is bounded whatever the broker and the callers do. It counts lost events in the metric
// EventsDropped of package telemetry and in the log. Where there is no room for an event, it counts
// the request that was lost instead.
//
// # What an event contains
//
// An event is a JSON object; [Schema] is its schema, and [Event] documents each member.
//
//	{"time":"2026-11-21T12:00:00.25Z","namespace":"prod","environment":"Q5…","sequence":17,
//	 "outcome":"refused","count":412,"subject":"3391c2a9a8625702","rule":"GET /search",
//	 "limit":"search","cost":412,"remaining":0,"latencyMs":0.031}
//
// Some requests are counted exactly: those that were refused, unauthorized, failed, decided without
// the store (degraded), or that a limit in shadow mode would have refused. Those of one second,
// caller, limit and outcome are one event. So a flood makes no more events than a client that tries
// once a second.
//
// All other allowed requests are sampled with equal probability, and the count of such an event is
// the number of requests that it stands for. So the sum of count over any group of events is its
// number of requests: exact for counted requests, and an estimate for sampled ones. From n sampled
// events, the estimate is within about 200/√n percent in 19 of 20 cases: within 20 % for 100 events.
//
// The subject is a keyed hash (telemetry.SubjectHash) of the caller's strongest identity. So no event
// contains a name, and a guess can be checked only with the key. All events of a caller have the same
// hash, so treat them as personal data. If more than 1,000 events wait for a batch, requests of
// further callers are counted together, in events without a subject.
//
// # When it sends
//
// Nothing runs between requests in Lambda, so requests send batches. A request begins one beside its
// store call, a second after the batch before or when 500 events wait. When its answer is ready, it
// waits for the batch for [DefaultBudget] at most. A broker in the same network needs a few
// milliseconds, most of which have passed by then. A slower batch, such as one that needs a new
// connection, continues in the next requests. At most five requests wait for one batch.
//
// # What is lost
//
//   - A batch that the broker rejects, or that takes at least 5 s and three requests. Then nothing is
//     sent for a second, and for twice as long after each further failure, up to 30 s. The events
//     leave a gap in the sequence of their environment.
//   - Sampled requests while 1,000 events wait, and counted requests beyond 200 further kinds (of
//     second, outcome and reason).
//   - The events since the last batch when an environment ends.
//
// A sink that gets no answer may send an event again. The two have the same environment and sequence.
//
// Requests that a throttle in front of the functions rejects have no events.
//
// # What it costs
//
// An event has 200 to 350 bytes. An environment sends at most 1,200 events a second. A million allowed
// requests at 1 % are 10,000 events, about 3 MB. A request that is not kept takes less than a
// microsecond, and one that is counted about three (BenchmarkPublisher_Record).
package decisionlog
