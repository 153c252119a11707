// Package local has the state that one process keeps beside a shared store.
//
//   - [Denials] caches states, and denies without a store call.
//   - [Lease] serves quota that the process took in advance.
//   - [Counter] counts by itself and synchronizes with the store; with a [Share] it admits its part of
//     a limit that many processes divide by demand.
//   - [Fallback] counts by itself while the store fails.
//
// Subjects are plain strings, and a [Limit] is an ID and a machine: package limiter translates. Leases,
// counters and shares are plain values; their user holds a lock. Nothing here reads a clock.
package local
