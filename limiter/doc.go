// Package limiter decides whether a request is within its limits.
//
// A [Limit] admits so many requests per window. A [Charge] is a cost on one limit of one [Subject]: a
// user, an API key, an address, everybody. A [Limiter] takes all charges of a request and returns
// one [Decision]; a [Store] keeps the counts. Packages memstore, dynamostore and redisstore are
// stores, package rules makes charges from a document, and package httplimit answers HTTP with the
// decision.
//
// # Guarantees
//
// An admitted request was charged on every limit. If one limit of a subject refuses a request, no
// other limit of that subject is charged. Charges on other subjects are refunded as far as that is
// safe: a refund never admits a request that should be denied.
//
// State is read and written in one atomic step of the store, so no concurrency admits too many
// requests. The instant is an argument: the server reads the clock once per request.
//
// Denial is a Decision, not an error. If the store fails, [Limit.OnError] decides: the request is
// admitted, denied, or limited by this process alone. [Decision.Reason] reports the failure. Package
// resilient avoids the wait for a store that is down. FAILURES.md lists what happens, fault by fault.
//
// # Busy limits
//
// Concurrent requests on one subject share store calls (group commit): one call is in flight at a
// time, and the next one charges all requests that wait. A single request costs and waits no more
// than without group commit. If a subject is charged faster than its store can write, the request
// is denied with [ReasonBusy], whatever OnError is.
//
// Many requests on one limit overload its one item or key. [Spread] lists the ways to reduce
// store calls, and what each of them may admit too much or too little.
//
// # Other operations
//
// [Limiter.Peek] returns what Take would decide. [Limiter.TakeRefundable] returns a [Receipt] that
// refunds a charge. A [Charge] with Force goes past the limit, into a debt. [Limiter.Inspect] returns
// the [Usage] of limits, and [Limiter.Reset] deletes subjects. A [Limit] with Shadow is tried out: it
// refuses nothing.
//
// # How it works
//
// Method decide, in decide.go, shows the seven phases of a decision. Package internal/local has what
// a process keeps beside the store, and package internal/group has group commit.
//
// # Limits of the package
//
// It does not know HTTP, AWS or Redis, and it does not wait: RetryAfter is when to come back.
package limiter
