// Package storetest defines the behaviour of a limiter.Store as tests.
//
// A store runs the suite with [Run] in one line; see the example. [Linearizable] and [GroupCommit]
// test concurrency.
//
// A model applies package algo to one charge after another, for any order of the instants. The suite
// compares every answer with the model, bit for bit. It never sleeps or waits for expiry, because the
// instant is an argument. Each test uses new subjects, so the server may hold other state.
package storetest
