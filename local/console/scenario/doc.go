// Package scenario plays arrivals against limits on a simulated clock. The console shows the
// results.
//
// # Guarantee
//
// [limiter.Limiter] makes every decision over a store, as for a real request. The same
// parameters always give the same result. Parameters are bounded, so that a play takes
// milliseconds.
//
// # The model
//
// The parameters determine when requests arrive: a burst at one instant, and others evenly.
// Decisions take no time, and a refused request is not sent again. An admitted request
// leaves at once, or after its delay in the queue of a leaky bucket. Windows begin with the
// first instant.
package scenario
