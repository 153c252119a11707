// Bench measures Weir and the libraries that a user could choose instead, in one run, and prints the tables of
// each group.
//
// `make bench` runs it with DynamoDB Local and Redis.
package main
