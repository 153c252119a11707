// Package resilient bounds what the faults of a remote store cost a decision.
//
// The stores of redisstore.New and dynamostore.New are resilient; [New] wraps another store. A resilient store has
// a circuit breaker and its own deadlines. It repeats a charge whose idle connection is dead, and gives a decision more
// time to open a connection if necessary. If the store cannot charge a request, [limiter.OnError] decides it.
//
// # Circuit breaker
//
// After [Failures] failures in a row, every call fails at once with [limiter.ErrBreakerOpen] for
// [Pause]. Then one Take probes the store. Other Takes still fail at once until the probe
// returns. If the probe succeeds, the breaker closes. If the probe fails, another pause begins.
// Therefore, an outage costs a process one deadline per pause.
//
// With [Options.Background], as in redisstore.New, redisstore.Open and dynamostore.New, no request waits for a store
// that hangs. A Take after a pause fails at once, while a goroutine looks at its subject. If the store answers, the
// next Take is the probe; if it does not, another pause begins. If no Take comes for two pauses, the next Take
// probes the store itself. So a second after an outage, each Take reaches the store. In AWS Lambda, a process is frozen
// between two requests, so functions do without Background.
//
// After a pause, a Settle probes the store by a Take of cost 0 on its subject. If a probe is in flight, the Settle
// waits for its end, at most until its own deadline. So a process that only settles recovers too, and no
// settlement is lost because another call is the probe. A settlement in a pause fails and has changed nothing.
//
// A failure is a call without an answer; see [limiter.Answered]. An error about one subject is an
// answer: contention, a full store, a throttled item, unreadable state, a rejected item. Therefore, one
// subject never opens the breaker for all subjects.
//
// A request with several subjects makes several calls. If one of these calls is the probe and succeeds,
// the Limiter then makes the other calls.
//
// # Deadlines
//
// All calls of a decision share one deadline. Opening a connection takes longer, so a decision gets more time if
// it may have to open a connection:
//
//	usual      50 ms in Redis, 100 ms in DynamoDB, or limiter.Options.Timeout
//	reconnect  250 ms   after five seconds without a call; a second or more after a failed call;
//	                    and for the repeated charge after a dead connection
//	first      900 ms   the first decision of a process, and all that begin before it returns
//
// # Dead connections
//
// A charge is repeated once if its connection was idle for more than a second and breaks without an answer. A connection
// that was used since then probably lost an answer, and a repetition would charge twice. A refund is never repeated,
// because two refunds would admit more. The package observes connections of net/http. Clients of other protocols dial with [Watch].
package resilient
