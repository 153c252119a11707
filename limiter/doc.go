// Package limiter decides whether a request is within its limits.
//
// A [Limit] admits a number of requests per window. A [Charge] is a cost on one limit of one [Subject]:
// a user, an API key, an address, all callers. A [Limiter] decides all charges of a request and returns
// one [Decision]. A [Store] keeps the counts. Packages memstore, dynamostore and redisstore are stores.
// Package rules makes charges from a rules document, and package httplimit writes the decision into HTTP
// responses.
//
// # Guarantees
//
// An admitted request is charged on every limit. If one limit of a subject refuses a request, no other
// limit of that subject is charged. Charges on other subjects are refunded as far as that is safe: a
// refund never admits a request that should be denied.
//
// A store reads and writes state in one atomic step, so concurrent requests never pass a limit. The
// instant is an argument: the server reads the clock once per request.
//
// Denial is a Decision, not an error. If the store fails, [Limit.OnError] decides: the request is
// admitted, denied, or limited by this process alone. [Decision.Reason] reports the failure. Package
// resilient bounds how long requests wait for a store that is down. FAILURES.md describes each fault.
//
// # Busy limits
//
// Concurrent requests on one subject share store calls (group commit): one call is in flight at a time,
// and the next call charges all requests that wait. A request that comes alone makes the same calls as
// without group commit and waits no longer. If requests on a subject arrive faster than the store can
// write, they are denied with [ReasonBusy], for every OnError.
//
// Many requests on one limit overload its one item or key. [Spread] lists the ways to reduce store
// calls, and how many requests each way can wrongly admit or refuse.
//
// # Other operations
//
// [Limiter.Peek] returns what Take would decide. [Limiter.TakeRefundable] returns a [Receipt] that
// refunds the charges. A [Charge] with Force can exceed the limit, which causes a debt.
// [Limiter.Inspect] returns the [Usage] of limits, and [Limiter.Reset] deletes subjects. A [Limit] with
// Shadow refuses nothing, so that it can be tried out.
//
// # How it works
//
// New makes a chain of layers, one for each mechanism, and method decide asks it about each subject of a request.
// ARCHITECTURE.md has the picture of the chain. Package limiter/internal/domain has the fields and methods of the types that
// this package only names, such as Limit.
//
// # Limits of the package
//
// The package does not depend on HTTP, AWS or Redis. It never delays a request:
// [Decision.RetryAfter] reports when the caller may try again.
package limiter
