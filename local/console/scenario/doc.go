// Package scenario plays arrivals against limits on a simulated clock. The console shows the
// results.
//
// # Guarantee
//
// [limiter.Limiter] makes every decision, as for a real request. The same parameters always have the
// same result. All parameters have bounds, so a scenario needs only milliseconds to compute.
//
// # The model
//
// The parameters determine when requests arrive: first a burst at one instant, and then the
// others at equal intervals. Decisions take no time, and refused requests are not retried. An
// admitted request leaves at once, or after its delay in the queue of a leaky bucket. The first
// window begins at the first instant.
package scenario
