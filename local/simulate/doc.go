// Package simulate measures the cost and the accuracy of limits under traffic that no single
// machine can produce: up to a million requests a second to thousands of environments, which share
// one DynamoDB table or ElastiCache.
//
// # What is real
//
// The Limiter is real: each environment has its own, with its denial cache, leases, counters
// and cells, and the algorithms of package algo. Two stores are modelled. DynamoDB makes the
// attempts of limiter/dynamostore without writing their expressions. ElastiCache runs the
// script of limiter/redisstore as one atomic step of a memory store. Tests compare both with
// the real stores: DynamoDB Local and Redis, called in the same order, give the same answer to
// every request with the same number of calls.
//
// # What is modelled
//
// Time is virtual. A call takes half of its round trip to the store and half back. Each half takes at
// least an eighth of the median round trip. Calls of other environments come in between, so that
// guesses fail as in reality. All environments exist from the start. Each one receives its part of the
// requests as a Poisson process and decides one request at a time. A request that finds its environment
// busy waits; after a second it is turned away. Callers follow Zipf's law. After the Timeout a request
// is decided without the store, by on_error. The store may still charge it.
//
// An item of DynamoDB accepts a number of write units a second, plus what it did not use in the
// second before. It throttles the rest. It begins with one unit, so that the start of an
// overload does not look better than the overload: two writes to a new item within a
// millisecond are one too many. ElastiCache Serverless accepts a number of ECPUs a second for
// each slot and as a whole, and rejects the rest. A script costs three ECPUs by the prices. AWS
// documents 30,000 for a slot, and more only for reads of replicas; this has not been measured.
// An oracle with the same algorithm sees all requests in order of time. It finds the requests
// that were wrongly refused.
//
// # How it scales
//
// An environment does not wait for the others. It decides its requests until one needs the store, or
// until the end of a tick of at least 100 ms. A request without a call causes no event, and the state of
// the environment stays in the caches of the processor. The store serves the calls in the order of
// their arrival. Calls within a quarter of the median round trip do not depend on each other's answers.
// Their environments therefore continue on several processors, in any order (TestRun_order). Each
// environment has its own random numbers, so the result does not depend on the number of processors
// (TestRun_deterministic). Requests are judged a tick later and then forgotten: the memory depends on
// the number of callers and environments, not on the time.
//
// # What is not modelled
//
// Cold starts take no time, clocks agree, and a request has one limit. There is no circuit
// breaker. Throttling does not open it; with an ElastiCache that rejects calls it would save
// requests the errors, with the same outcome. Lambda admits ten synchronous requests a second for each
// unit of an account's concurrency, so a million a second needs a quota of 100,000. It starts 1,000
// environments of a function in 10 seconds. Result.Concurrency is the quota that a scenario needs; the time to reach it is not
// modelled. A DynamoDB table has no limit of its own (a new one on demand accepts 4,000 write
// units a second, and an account 40,000 unless AWS raises that). Hot items are already
// isolated, except in the tests of pressure. ElastiCache grows at once, and its network does
// not slow down under load.
package simulate
