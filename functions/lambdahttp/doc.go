// Package lambdahttp runs the authorizer and the handler on Lambda. It converts events into
// http.Requests, and decisions into the answers that each host expects.
//
// [NewAuthorizer] is the REQUEST authorizer of a REST API. It identifies the caller, gets a decision
// from the limiter, and returns a policy. The context of the policy contains the header fields of the
// answer.
//
// [NewHandler] runs an http.Handler on events of a REST API, an HTTP API, a function URL or a load
// balancer. The authorizer marks the context of an event with "weir": "allowed". For such an event, and with
// Environment.BehindAuthorizer, the handler copies the decision into its response. It decides any other request itself.
//
// [NewLayer] decides the same events for a function in another process, which package runtimeproxy runs.
//
// [Environment.Serve] is the same http.Handler for net/http, so an API behaves in the same way on
// Lambda and on this machine. The hosts differ only in the form of an event and in the source of the
// client's address.
//
// This package reads no environment variables. Package boot reads them and returns an [Environment].
package lambdahttp
