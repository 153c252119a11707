// Package limiter decides whether a request is within its limits.
//
// A [Limit] is at most so many requests per window. A [Charge] puts a cost on one
// limit of one [Subject] (a user, an API key, an address, everybody). A [Limiter]
// takes all charges of a request and returns one [Decision]; a [Store] keeps the
// counts. Packages memstore, dynamostore and redisstore are stores, package rules
// makes charges from a document, and package httplimit answers HTTP with the
// decision.
//
// # Guarantees
//
// An admitted request has been charged on every limit. A request that is refused
// by one limit of a subject has charged no other limit of that subject, and what
// other subjects were charged is given back as far as that is safe: a refund never
// lets anyone through who should not pass. State is taken and written in one atomic
// step of the store, so no concurrency admits one request too many. The instant is an
// argument: whoever answers the request reads the clock, once.
//
// Denial is a Decision and not an error. When the store fails, [Limit.OnError] decides:
// the request is admitted, denied, or limited by this process's share; [Decision.Reason]
// says so. Package breaker spares requests the wait for a store that is down, and
// FAILURES.md has what becomes of a request, fault by fault.
//
// # Busy limits
//
// Requests of one subject that come at once share store calls (group commit): one call is in
// flight at a time, and the next one charges all who wait. A single request at a time costs and
// waits as if there were no others. Where a subject is charged faster than its store can, the
// request is refused with [ReasonBusy], and Limit.OnError has no say.
//
// A limit that many requests charge wears out its one item or key. [Spread] says how it
// spares the store, and what each way may admit too many or too few: leases and shards
// none too many, counters that are synchronized what their interval lets through.
//
// # Besides taking
//
// [Limiter.Peek] tells what a request would get. [Limiter.TakeRefundable] returns a
// [Receipt] that gives a charge back. A [Charge] with Force goes past the limit, into a
// debt. [Limiter.Reset] forgets subjects, and [Store] has Inspect. A [Limit] with Shadow
// is tried out: it refuses nobody.
//
// # What it does not do
//
// It knows nothing of HTTP, AWS or Redis, and it does not wait: RetryAfter says
// when to come back.
package limiter
