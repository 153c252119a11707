// Package algo holds the rate limiting algorithms as pure state machines.
//
// A machine maps (state, instant, cost) to (next state, allowed). It reads no clock, does no I/O and
// keeps no state: the same inputs give the same outputs, bit for bit. Therefore, one specification holds
// for a memory store, a DynamoDB condition and a Lua script. Time is in integer nanoseconds, products
// are computed in 128 bits, and every rounding errs toward fewer admissions.
//
// The guarantees below are for exact instants. For other instants, make L longer by the difference
// between the clocks, and by the age of an instant when the store applies it.
//
//   - token bucket: at most Burst + L/T requests in any interval of length L,
//     T = ceil(Window/Requests);
//   - sliding window: at most Requests*(1 + L/Window) in any interval of length
//     L, so up to twice Requests in the worst Window, like a bucket that starts
//     full;
//   - leaky bucket: the same as a token bucket; requests that wait for their Delay depart at intervals
//     of Interval;
//   - sliding log: at most Requests in any interval of length Window;
//   - fixed window: at most Requests in each window aligned to UTC, so up to twice as many across a
//     boundary.
//
// RetryAfter is exact: the same request passes at now+RetryAfter and not one
// nanosecond before, if nothing else is charged meanwhile. An instant older than
// the state never adds quota.
//
// The package does not know subjects, stores or rules; package limiter does.
package algo
