// Bench measures Weir and the libraries that a user could choose instead, in one run. It prints the
// tables of each group, and whether each goal was met. Goals are counts, or ratios of figures of the
// same run, so they apply to any machine.
//
// `make bench` runs it with DynamoDB Local and Redis.
package main
