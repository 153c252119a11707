// Package simulate measures the cost and the accuracy of limits under traffic that no single machine can
// produce. It simulates up to a million requests a second to thousands of environments. The environments
// share one DynamoDB table or one ElastiCache.
//
// # What is real
//
// The Limiter is real. Each environment has its own Limiter, with its denial cache, leases and
// counters, and the algorithms of package algo. With DynamoDB, each environment also has a real
// limiter/dynamostore, and the table is in memory (limiter/dynamostore/memtable). TestStore of dynamostore
// compares the table's answers and the sizes of its items with DynamoDB Local. ElastiCache is a model: it
// runs the script of limiter/redisstore as one atomic step of a memory store. TestRun_likeRedis compares
// the model with Redis. If the calls arrive in the same order, every request gets the same answer with
// the same number of calls.
//
// # What is modelled
//
// Time is virtual. A call takes half of its round trip to reach the store, and the other half to return.
// Each half takes at least an eighth of the median round trip. Calls of other environments arrive in the
// meantime, so guesses fail as in reality. All environments exist from the start. Each environment
// receives its part of the requests as a Poisson process and decides one request at a time. If the
// environment is busy, a request waits. After a wait of a second, the model rejects the request. Callers
// follow Zipf's law. After the Timeout, on_error decides a request without the store. The store can
// still charge the request later.
//
// A write costs one unit for each started KB of its item. An item of DynamoDB accepts a number of write
// units a second, plus the unused units of the previous second. It throttles all other writes. A new item begins with one unit, so that
// the first second of an overload has no more units than the next seconds. The second of two writes to a new item within
// a millisecond is therefore throttled. ElastiCache Serverless accepts a number of ECPUs a second for each slot, and
// another number for the whole cache. It rejects all other scripts. A script costs three ECPUs at the documented prices.
// AWS documents 30,000 ECPUs a second for a slot, and more only for reads of replicas. This figure has not been
// measured. An oracle runs the same algorithm on all requests in order of time. A comparison with the oracle shows how
// many requests were wrongly refused.
//
// # How it scales
//
// An environment does not wait for the others. It decides its requests until one of them needs the
// store, or until the end of the tick, a step of the virtual time. A tick is at least 100 ms long. A
// request without a call causes no event, and the state of the environment stays in the caches of the
// processor. The store serves the calls in the order of their arrival. Calls within a quarter of the
// median round trip do not depend on each other's answers. Their environments therefore continue
// in any order (TestRun_order). Each environment has its own random numbers. Requests are judged a tick
// later, and then removed. The memory therefore depends on the number of callers and environments, not
// on the simulated time.
//
// # What is not modelled
//
// Cold starts take no time, and clocks agree. There is no circuit breaker. With
// DynamoDB a breaker would change nothing, because throttling does not open it. If an ElastiCache
// rejects calls, a breaker would prevent the calls, but the requests would have the same outcome. Lambda
// admits ten synchronous requests a second for each unit of an account's concurrency, so a million a
// second needs a quota of 100,000. Lambda starts 1,000 environments of a function in 10 seconds.
// The time to reach this quota is not modelled. A DynamoDB table as a whole has no limit here. (In AWS,
// a new on-demand table accepts 4,000 write units a second. An account's quota is 40,000 unless AWS raises
// it.) Hot items have a partition of their own,
// except in the tests of pressure. ElastiCache grows at once, and its network does not slow down under
// load.
package simulate
