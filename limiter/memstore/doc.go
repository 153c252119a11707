// Package memstore keeps limits in the memory of one process.
//
// It is exact, needs no server and shares nothing: each process, and each Lambda environment, counts by
// itself. It is for local runs, tests, and limits that are divided among processes beforehand.
//
// Its memory is bounded by what it holds: limits and the entries of logs. A full store removes subjects at full quota, and
// then evicts those that were unused for the longest time, of those below half of all their limits. If there are none, a
// charge on a new subject, or on a new limit of a known subject, fails with [limiter.ErrFull].
package memstore
