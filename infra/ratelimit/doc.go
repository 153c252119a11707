// Package ratelimit is a CDK construct that limits an API on API Gateway. It creates the table or
// cache of the counters, the authorizer, the permissions, and the alarms.
//
// The construct guarantees:
//   - No result of an authorizer is cached, because a cached result counts nothing.
//   - Every method of an attached API is limited, except OPTIONS that API Gateway answers.
//   - A refusal is a 429 with the header fields of the decision.
//   - Each function has permission only for its calls.
//
// The synthesis of the app fails if the construct cannot guarantee this: see [Limits.Attach].
//
// An authorizer limits a REST API before its methods run: see the example. An HTTP API, a function URL
// or a load balancer has no authorizer that answers 429. There the function itself enforces the limits:
// [Limits.AddLayer] adds a layer to a function of a managed runtime, such as Node.js or Python. A Go
// function links limiter/httplimit or functions/lambdahttp, and gets its access from [Limits.Equip].
//
// The synthesis checks the variables and the rules with the code with which the functions read them.
//
// infra/ATTACH.md shows each case from start to end.
package ratelimit
