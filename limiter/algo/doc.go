// Package algo has the rate limiting algorithms as pure state machines.
//
// A machine maps (state, instant, cost) to (next state, allowed). It reads no clock, does no I/O and keeps no state.
// The same inputs give the same outputs, bit for bit. Therefore, a memory store, a DynamoDB condition and a Lua
// script can implement the same machine. Time is in integer nanoseconds, products are computed in 128 bits, and every
// rounding errs toward fewer admissions.
//
// The guarantees below hold if all clocks agree and a store applies each charge at its instant. Otherwise, make L
// longer by the largest difference between two clocks, plus the longest delay of a charge.
//
//   - token bucket: at most Burst + L/T requests in any interval of length L, where
//     T = ceil(Window/Requests);
//   - leaky bucket: the same as a token bucket; requests that wait for their Delay depart at intervals
//     of T;
//   - sliding window: at most Requests*(1 + L/Window) requests in any interval of length L. In the worst
//     Window this is twice Requests. With at most MaxExact Requests, the same as a sliding log;
//   - sliding log: at most Requests in any interval of length Window, and Requests*ceil(L/Window) in any
//     interval of length L;
//   - fixed window: at most Requests in each window aligned to UTC. Around a boundary, an interval of one
//     Window can have twice as many.
//
// RetryAfter is exact if nothing else is charged meanwhile: the same request is allowed at now+RetryAfter, and
// refused one nanosecond before. A clock that is behind the state never adds quota.
//
// Package algo does not know subjects, stores or rules. Package limiter does.
package algo
