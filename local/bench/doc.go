// Bench measures Weir beside the libraries that a user would pick instead, in one run,
// and prints one table a group and whether each goal was met. Goals are ratios within
// the run, or counts, so that they hold on any machine.
//
// It is a module of its own, so that nobody who imports Weir downloads its peers.
// `make bench` runs it beside DynamoDB Local and Redis.
package main
