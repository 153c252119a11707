// Package scenario plays arrivals against limits, by a clock that is only counted: what the
// console shows of the algorithms is what these decided.
//
// # Guarantee
//
// Every decision is made by [limiter.Limiter] over a store, as for a request; nothing is
// computed a second way. The same parameters give the same result, whenever and wherever
// they are played, and they are bounded, so that a play takes milliseconds.
//
// # The model
//
// Requests arrive at instants that follow from the parameters: all of a burst at one instant,
// and others evenly. Decisions take no time, and nobody comes again after a refusal. A
// request that is let through leaves at once, or, from the queue of a leaky bucket, after
// its delay. Windows begin with the first instant.
package scenario
