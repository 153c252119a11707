// Package faults contains only tests. They check the answers to requests and the counts in the store
// while the store is slow, silent, wrong or down. Each fault of the last table in
// limiter/FAILURES.md has a test here, and each test is in that table.
//
// The tests build an environment as functions/boot does. The environment uses real servers behind
// toxiproxy. DynamoDB Local has a second proxy, which returns the errors of DynamoDB for throttling
// and failures.
package faults
