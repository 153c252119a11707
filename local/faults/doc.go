// Package faults has only tests. They check what happens to requests, and to counts, while a
// store is slow, silent, wrong or gone. Each line of limiter/FAILURES.md is a test here, and
// each test is a line there.
//
// The tests build an environment as functions/boot does, over real servers behind toxiproxy.
// DynamoDB Local has a second proxy, which answers as DynamoDB does when it throttles or
// fails.
package faults
