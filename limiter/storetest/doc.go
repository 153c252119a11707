// Package storetest is the definition of a limiter.Store, as tests.
//
// A store runs it in one line:
//
//	storetest.Run(t, func(t *testing.T) limiter.Store { return storetest.Must(memstore.New(memstore.Options{})) })
//
// Every answer is compared with a model that applies package algo to one caller
// after another, bit for bit, whatever the order of the instants. Nothing sleeps
// and nothing waits for expiry: the instant is an argument. Subjects are new in
// each test, so the suite may run against a server that holds other state.
package storetest
