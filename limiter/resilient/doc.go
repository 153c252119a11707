// Package resilient makes a decision independent of the faults of a remote store.
//
// [New] wraps a [limiter.Store]. The wrapped store has a circuit breaker, repeats a charge whose
// connection turns out to be dead, and grants more time to a decision that may have to open a
// connection. What happens to a request that the store cannot charge is decided by
// [limiter.OnError].
//
// # Circuit breaker
//
// After [Options.Failures] failures in a row, every call fails at once with
// [limiter.ErrBreakerOpen] for [Options.Pause]. Then one Take probes the store. Other calls still
// fail at once until the probe returns. If the probe succeeds, the breaker closes; if it fails,
// another pause begins. An outage therefore costs a process one deadline in each pause.
//
// A failure is a call that ends without an answer, by an error or by its deadline; see
// [limiter.Answered]. Errors about one subject are answers: contention, a full store, a throttled
// item, unreadable state, a rejected item. One subject therefore never opens the breaker for all.
//
// A request of several subjects makes several calls. If one of them is the probe and succeeds, the
// Limiter makes the others too.
//
// # Deadlines
//
// [limiter.Options].Timeout bounds a decision. All calls of a decision share this deadline.
// Opening a connection takes longer, so a decision gets more time where it may have to:
//
//	usual      limiter.Options.Timeout
//	reconnect  250 ms   after five seconds without a call, or a second or more after a call
//	                    that failed; also the repetition on a dead connection
//	first      900 ms   the first decision of a process, and all that begin before it returns
//
// # Dead connections
//
// A charge is repeated once if its connection had been used before and breaks without an answer.
// If the server received the first one too, the subject is charged twice, which admits fewer
// requests. A refund is not repeated: two refunds would admit more. Connections of net/http are
// observed by themselves; other clients report new connections by [Opened].
package resilient
