// Package storetest defines the behaviour of a limiter.Store as tests.
//
// [Run] runs the suite on a store, as the example shows. The tests of this package test a Limiter on each store of
// Weir, with random histories of pairs of mechanisms, such as leases and outages (mechanisms_test.go has the table of
// all mechanisms).
//
// A model applies package algo to one charge after another, for any order of their instants. The suite
// compares every answer with the model, bit for bit. It never sleeps or waits for expiry, because the
// instant is an argument. Each test uses new subjects, so the server can contain other state.
package storetest
