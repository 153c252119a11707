// Package lambdahttp runs the two functions on Lambda: it converts events into http.Requests, and
// decisions into the answers that each host expects.
//
// [NewAuthorizer] is the REQUEST authorizer of a REST API. It identifies the caller, takes a decision
// from the limiter, and returns a policy. The context of the policy carries the header fields of the answer.
//
// [NewHandler] runs an http.Handler on events of a REST API, an HTTP API, a function URL or a load
// balancer. Behind the authorizer, which marks the context of the event with "weir": "allowed", it
// copies the decision into its response. Otherwise it takes the decision itself.
//
// [Environment.Serve] is the same http.Handler for net/http, so an API behaves alike on Lambda and on
// this machine. The hosts differ only in the form of an event and in the source of the client's
// address.
//
// This package reads no environment variables; package boot does, and returns an [Environment].
package lambdahttp
