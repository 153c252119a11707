// Package resilient spares requests the wait for a store that is down.
//
// A [limiter.Store] made by [New] asks the store that it is around. After some failures in a
// row, [Options.Failures], it asks no more: for [Options.Pause] every call fails at once
// with limiter.ErrBreakerOpen. Then one Take is let through as a probe, and the others fail
// at once until it has returned: if it succeeds, all go through again, and if not, none for
// another pause. So an outage costs each process one deadline in a pause, and once the store
// is back, the first request after a pause is counted, and all those after it.
//
// A failure is a call that ended without an answer, by an error or by its deadline; see
// limiter.Answered. A store that is contended, full or throttled, holds what cannot be read, or
// rejects one subject, has answered: whoever wears out one subject does not open the breaker
// for all.
//
// A request of several subjects makes several calls. If the probe is one of them and succeeds, a
// Limiter makes the others too.
//
// It says nothing of what becomes of a request that is not counted: see limiter.OnError.
package resilient
