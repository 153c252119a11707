// Package memstore keeps limits in the memory of one process.
//
// It is exact, it needs no server, and it shares nothing: each process, and each
// Lambda environment, counts for itself. It serves local runs, tests and limits
// that are split among environments beforehand.
//
// Its memory is bounded. A subject is forgotten only when every limit of it is at
// full quota, so forgetting never hands out quota; with no room left a new subject
// gets limiter.ErrFull, and so does a new limit of one that is there. The bound counts limits and the
// entries of logs, and not only subjects.
package memstore
