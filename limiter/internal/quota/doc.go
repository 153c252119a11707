// Package quota has the state machines by which one process spreads the load of a busy limit.
//
//   - [Lease] is quota that the process took in advance.
//   - [Counter] counts in the process and synchronizes with the store at intervals. With a [Share], it
//     admits the part of the limit that this process gets by its demand.
//   - [Pressure] measures how busy the item of a subject is.
//
// They know an algorithm and its state, but no limit and no subject. The lock of package table guards them,
// because they have none of their own. Nothing here reads a clock.
package quota
