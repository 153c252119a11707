// Package memstore keeps limits in the memory of one process.
//
// It is exact, needs no server and shares nothing: each process, and each Lambda environment, counts by
// itself. It is for local runs, tests, and limits that are divided among processes beforehand.
//
// Its memory is bounded. A subject is removed only when all its limits are at full quota, so a removal
// never creates quota. If there is no room, a charge on a new subject, or on a new limit of a known
// subject, fails with [limiter.ErrFull]. The bound counts limits and the entries of logs, not only
// subjects.
package memstore
