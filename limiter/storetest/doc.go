// Package storetest defines the behaviour of a limiter.Store as tests.
//
// A store runs the suite with [Run] in one line; see the example. [Linearizable] and [GroupCommit]
// test concurrency.
//
// Every answer is compared, bit for bit, with a model that applies package algo to one charge after the
// other, whatever the order of the instants. Nothing sleeps and nothing waits for expiry: the instant is
// an argument. Subjects are new in each test, so the suite may run against a server that holds other
// state.
package storetest
