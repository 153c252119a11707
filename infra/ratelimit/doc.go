// Package ratelimit is a CDK construct that puts Weir's limits on an API: the state's
// table or cache, the authorizer, what it may do, and its alarms.
//
// What it makes sure of: an authorizer's answers are never cached, for a cached one
// counts nothing; every method of an API that it is attached to is behind the limits,
// but for OPTIONS; a refusal is a 429 with the header fields of the decision; and each
// function may call what it calls, and no more. What it cannot make right it refuses
// when the stack is synthesized: see [Limits.Attach].
//
// A REST API is limited in front of its methods:
//
//	limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
//		Namespace: "prod",
//		Bundles:   "dist/arm64",   // go build … github.com/weir-limits/weir/functions/authorizer
//		Rules:     "rules.json",
//	})
//	limits.Attach(api)
//
// An HTTP API, or a function URL, has no way to answer 429 before its function, so that
// function limits itself, by the middleware of limiter/httplimit or functions/lambdahttp:
//
//	limits.Equip(function) // variables, permissions and, with ElastiCache, the network
//
// The README's "Limit an API that you have" shows both from start to end.
package ratelimit
