// Package faults has no code, only tests: what becomes of requests, and of what was
// counted, while a store is slow, silent, wrong or gone. Each line of
// limiter/FAILURES.md is a test here, and each test a line there.
//
// The tests build an environment as functions/boot does, over real servers behind
// toxiproxy. DynamoDB Local has a second proxy before it, which answers as DynamoDB does
// when it throttles or fails.
package faults
