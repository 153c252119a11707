// Package decisionlog sends decision events to a broker, for analytics: which callers were refused,
// by which limit and how often, and how many requests were allowed. A [Publisher] turns outcomes into
// events and sends them in batches to a [Sink].
//
// Events never make a request fail, and never delay a request by more than the budget. Memory is
// bounded for any behaviour of the broker and the callers. The Publisher counts lost events in the
// metric EventsDropped of package telemetry and in the log. If there is no room for an event, the
// Publisher counts the lost request instead.
//
// # What an event contains
//
// An event is a JSON object; [Schema] is its schema, and [Event] documents each member.
//
//	{"time":"2026-11-21T12:00:00.25Z","namespace":"prod","environment":"Q5…","sequence":17,
//	 "outcome":"refused","count":412,"subject":"3391c2a9a8625702","rule":"GET /search",
//	 "limit":"search","cost":412,"remaining":0,"latencyMs":0.031}
//
// Some requests are counted exactly: refused, unauthorized and failed requests, requests decided
// without the store (degraded), and requests that a limit in shadow mode would have refused. All such
// requests of the same second, caller, limit and outcome are one event. A flood therefore creates no
// more events than a client that sends one request a second.
//
// All other allowed requests are sampled with equal probability. The count of such an event is the
// number of requests that it represents. So the sum of count over any group of events is the group's
// number of requests: exact for counted requests, and an estimate for sampled ones. With n sampled
// events, the error of the estimate is below about 200/√n percent in 19 of 20 cases. With 100 events
// it is below 20 %.
//
// An event with a notice reports that a subject has used a percentage of a limit, and no request. The log has
// the same notice (package telemetry). A notice can arrive twice; both have the same id.
//
// The subject is a keyed hash (telemetry.SubjectHash) of the caller's strongest identity. So no event
// contains a name, and only someone with the key can test a guess. All events of a caller have the
// same hash, so treat them as personal data. If more than 1,000 events wait for a batch, requests of
// further callers are counted together, in events without a subject.
//
// # When it sends
//
// In Lambda nothing runs between requests, so requests send the batches. A request starts a batch,
// concurrently with its store call, if the previous batch is a second old or 500 events wait. When
// the answer of the request is ready, it waits for the batch for at most [DefaultBudget]. A broker in
// the same network needs a few milliseconds, most of which pass during the store call. A slower
// batch continues during later requests, for example if it needs a new connection. At
// most five requests wait for one batch.
//
// # What is lost
//
//   - A batch that the broker rejects, or that takes at least 5 s and more than three requests. The
//     Publisher then sends nothing for a second. After each further failure this pause doubles, up to
//     30 s. The lost events leave a gap in the sequence of their environment.
//   - Sampled requests while 1,000 events wait.
//   - Counted requests while 200 events without a subject wait, unless one of these events has the same
//     second, outcome and reason.
//   - The events since the last batch when an environment ends.
//
// A sink that gets no answer can send an event again. Both copies have the same environment and
// sequence.
//
// A request that a throttle in front of the functions rejects has no event.
//
// # What it costs
//
// An event has 200 to 350 bytes. An environment sends at most 1,200 events a second. A million
// allowed requests at 1 % are 10,000 events, about 3 MB. Record takes less than a microsecond for a
// request that is not sampled, and about three microseconds for a counted request
// (BenchmarkPublisher_Record).
package decisionlog
