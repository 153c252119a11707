// Package simulate tells what limits cost, and how wrong they are, under traffic that no
// machine at hand can make: 100,000 requests a second by a million callers, or a million if
// there is an hour, decided in thousands of environments of Lambda over one DynamoDB table or
// ElastiCache.
//
// # What is real
//
// The Limiter: each environment has one of its own, with what it remembers, leases, counters
// and cells, and the algorithms of package algo. The attempts of limiter/dynamostore are
// modelled without spelling their expressions, the script of limiter/redisstore is one atomic
// step of a memory store. Tests hold both to the truth: the same environments with the real
// stores, whose calls reach DynamoDB Local and Redis in the same order, give the same answer
// to every request, for the same number of calls.
//
// # What is modelled
//
// Time is virtual, and what happens is a sequence of events. A call takes half of its round
// trip to arrive, when the store serves it, and half to return; calls of other environments
// come in between, so that guesses go wrong as they do. Requests are a Poisson process, and
// callers come by Zipf's law. A request goes to any environment that is free, each as likely,
// and to a new one if none is: Lambda does not say which it takes. Who has waited for the
// Timeout decides without the store, by on_error, though the call may be charged still.
//
// An item of DynamoDB takes so many write units a second, and once what it was spared in the
// second before; what is more is throttled. It begins with one unit, lest an overload look
// better for having just begun: two writes to a new item within a millisecond are one too many.
// ElastiCache Serverless takes so many ECPUs a second for each slot, and as a whole, and turns
// away what is more: a script is three, as the prices have it. AWS's documentation has 30,000
// for a slot, and more only for reads of replicas; it has not been measured. An oracle of the same algorithm sees
// all requests in the order of their instants, and says what was refused wrongly.
//
// # What is not
//
// Cold starts take no time, clocks agree, and a request has one limit. There is no circuit
// breaker: throttling does not open it, but over an ElastiCache that turns away it would spare
// requests the errors, with the same outcome. Lambda is as large as it has to be: it admits ten
// synchronous requests a second for each of an account's concurrency, so that a million a second
// needs a quota of 100,000, and starts 1,000 environments of a function in 10 seconds.
// Result.Concurrency says what quota is needed; no time is taken to get there. DynamoDB's table has no limit of its own (a new one on demand takes
// 4,000 write units a second, and an account 40,000 unless AWS raises that), hot items have been
// isolated already, except in the tests of pressure. ElastiCache grows
// at once, and its network takes no more time under load.
package simulate
