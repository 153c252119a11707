// Package decisionlog makes events of decisions, for analytics: who was refused by what and how
// often, and how much is let through. It sends them in batches to a broker, which is a [Sink].
//
// What it makes sure of: no request fails for its events, and none waits longer than the
// budget; whatever the broker does and whoever calls, memory is bounded; and what is lost is
// counted, in the metric EventsDropped of package telemetry and in the log: in events where they
// were lost on their way, each of any number of requests, and in requests where there was no room
// for one.
//
// # What an event says
//
// An event is one object of JSON; [Schema] is its schema, and [Event] has each member.
//
//	{"time":"2026-11-21T12:00:00.25Z","namespace":"prod","environment":"Q5…","sequence":17,
//	 "outcome":"refused","count":412,"subject":"3391c2a9a8625702","rule":"GET /search",
//	 "limit":"search","cost":412,"remaining":0,"latency_ms":0.031}
//
// Requests that were refused, not authorized, failed, decided without the store (degraded), or
// that a limit on trial would have refused (shadowed), are counted: those of one second, caller
// and limit that ended alike are one event, so that a flood makes no more of them than a client
// that tries once a second. All other allowed requests are sampled: each is kept with the same
// probability, and has for its count how many it stands for. So the sum of count, by whatever
// one groups, is the number of requests: exact for all but the sampled ones. Of those n events
// of 1 % tell the number to within some 200/√n percent, 19 times of 20: 100 events to 20 %.
//
// The subject is a keyed hash (telemetry.SubjectHash) of the caller's strongest identity: no event
// has a name in it, and nobody without the key can check a guess. Events of one caller still
// have one hash, so keep them as personal data. Of more than 1,000 events that wait for a batch the requests of further
// callers are counted together, in events without a subject.
//
// # When
//
// Nothing runs between requests in Lambda. A batch is begun by a request, beside its store call,
// a second after the one before, or when 500 events wait; the request waits for it when its
// answer is ready, for [DefaultBudget] at most: a broker in the same network takes a batch in a
// few milliseconds, which mostly have passed by then. A batch that takes longer, such as for a new
// connection, goes on in the next requests. Five of them wait for one batch, and no more.
//
// # What is lost
//
//	a batch that the broker refuses, or that takes 5 s and three requests or more; then nothing
//	is sent for a second, and after each further failure for twice as long, up to 30 s. Its
//	events leave a gap in the sequence of their environment
//	allowed requests that were sampled while 1,000 events wait, and of the others what is more
//	than 200 further kinds (of second, outcome and reason)
//	what waits when an environment ends: the events since its last batch
//
// An event that a sink sends again, because it has heard no answer, may come twice: it then has
// the same environment and sequence.
//
// # What it costs
//
// An event has 200 to 350 bytes. An environment sends at most 1,200 a second, whatever is sent to
// it; a million allowed requests are 10,000 events at 1 %, some 3 MB. A request that is not kept
// costs less than a microsecond, one that is counted some three (BenchmarkPublisher_Record).
//
// What is not here: events of requests that a throttle before the functions turned away.
package decisionlog
