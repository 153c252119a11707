// Package local has the state that one process keeps beside a shared store.
//
//   - [Denials] caches states, and denies without a store call.
//   - [Lease] is quota that the process took in advance.
//   - [Counter] counts in the process and synchronizes with the store at intervals. With a [Share], it
//     admits the part of the limit that this process gets by its demand.
//   - [Pressure] measures how busy the item of a subject is.
//   - [Fallback] counts in the process while the store fails.
//
// Subjects are strings here, and a [Limit] is an ID and an algorithm. Package limiter locks leases,
// counters, shares and pressure, which have no lock of their own. Nothing here reads a clock.
package local
